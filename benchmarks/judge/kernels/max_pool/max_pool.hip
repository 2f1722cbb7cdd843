// 3 x 3 max pooling with stride 2 and padding 1, with the position of each maximum in its plane: the first of equal elements, and
// the last NaN of a window with NaN.
#include <hip/hip_runtime.h>

extern "C" __global__ void max_pool(const float* input, float* output, int* positions, int height, int width, int out_height,
                                    int out_width) {
  int ox = blockIdx.x * 16 + threadIdx.x;
  int oy = blockIdx.y * 16 + threadIdx.y;
  if (ox >= out_width || oy >= out_height) return;
  const float* plane = input + (size_t)blockIdx.z * height * width;
  int y0 = max(oy * 2 - 1, 0), x0 = max(ox * 2 - 1, 0);
  int y1 = min(oy * 2 + 2, height), x1 = min(ox * 2 + 2, width);
  float best = -INFINITY;
  int place = y0 * width + x0;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      float value = plane[(size_t)y * width + x];
      if (value > best || isnan(value)) {
        best = value;
        place = y * width + x;
      }
    }
  }
  size_t to = ((size_t)blockIdx.z * out_height + oy) * out_width + ox;
  output[to] = best;
  positions[to] = place;
}
