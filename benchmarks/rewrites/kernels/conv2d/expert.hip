// rocm-perf launch: {"grid": ["ceil_div(width, 64)", "ceil_div(height, 4)", "filters"], "block": [64, 4]}
// Rows of whole wavefronts; all nine values of a channel are loaded before they are used, two channels at once.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void conv2d(const float* __restrict__ image, const float* __restrict__ weights,
                                                         float* __restrict__ output, int channels, int height, int width) {
  int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, filter = blockIdx.z;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  const float* taps = weights + (size_t)filter * channels * 9;
#pragma unroll 2
  for (int channel = 0; channel < channels; ++channel) {
    const float* plane = image + (size_t)channel * height * width;
    float v[9];
#pragma unroll
    for (int t = 0; t < 9; ++t) {
      int yy = y + t / 3 - 1, xx = x + t % 3 - 1;
      bool inside = yy >= 0 && yy < height && xx >= 0 && xx < width;
      v[t] = inside ? plane[(size_t)yy * width + xx] : 0.0f;
    }
#pragma unroll
    for (int t = 0; t < 9; ++t) {
      int yy = y + t / 3 - 1, xx = x + t % 3 - 1;
      if (yy >= 0 && yy < height && xx >= 0 && xx < width) sum += v[t] * taps[channel * 9 + t];
    }
  }
  output[((size_t)filter * height + y) * width + x] = sum;
}
