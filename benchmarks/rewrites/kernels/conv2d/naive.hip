// 3 x 3 convolution of an image with zero padding, all input channels per output channel.
#include <hip/hip_runtime.h>

extern "C" __global__ void conv2d(const float* image, const float* weights, float* output, int channels, int height, int width) {
  int x = blockIdx.x * 8 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  int filter = blockIdx.z;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int channel = 0; channel < channels; ++channel) {
    const float* plane = image + (size_t)channel * height * width;
    const float* taps = weights + ((size_t)filter * channels + channel) * 9;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        int yy = y + dy, xx = x + dx;
        if (yy >= 0 && yy < height && xx >= 0 && xx < width) sum += plane[(size_t)yy * width + xx] * taps[(dy + 1) * 3 + dx + 1];
      }
    }
  }
  output[((size_t)filter * height + y) * width + x] = sum;
}
