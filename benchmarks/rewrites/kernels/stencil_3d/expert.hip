// rocm-perf launch: {"grid": ["ceil_div(width, 64)", "ceil_div(height, 4)", "ceil_div(depth, 4)"], "block": [64, 4]}
// Whole wavefronts follow a row; four planes per work-item stay in registers.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void heat(const float* __restrict__ input, float* __restrict__ output, int depth,
                                                       int height, int width) {
  int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z0 = blockIdx.z * 4;
  if (x >= width || y >= height) return;
  size_t plane = (size_t)height * width, column = (size_t)y * width + x;
  bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
  float planes[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) planes[i] = z0 + i >= 1 && z0 + i <= depth ? input[(z0 + i - 1) * plane + column] : 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int z = z0 + i;
    if (z >= depth) return;
    size_t at = z * plane + column;
    float here = planes[i + 1];
    if (!edge && z > 0 && z < depth - 1) {
      float around = input[at - 1] + input[at + 1] + input[at - width] + input[at + width] + planes[i] + planes[i + 2];
      here += 0.1f * (around - 6.0f * here);
    }
    output[at] = here;
  }
}
