// rocm-perf launch: {"grid": ["ceil_div(width, 64)", "ceil_div(height, 16)"], "block": [64, 4]}
// Neighbouring work-items follow a row; each computes four rows and keeps three of them in registers.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void jacobi(const float* __restrict__ input, float* __restrict__ output, int height,
                                                         int width) {
  int x = blockIdx.x * 64 + threadIdx.x, y0 = blockIdx.y * 16 + threadIdx.y * 4;
  if (x >= width || y0 >= height) return;
  float rows[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) rows[i] = y0 + i >= 1 && y0 + i <= height ? input[(size_t)(y0 + i - 1) * width + x] : 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int y = y0 + i;
    if (y >= height) return;
    size_t at = (size_t)y * width + x;
    bool border = y == 0 || x == 0 || y == height - 1 || x == width - 1;
    output[at] = border ? rows[i + 1] : 0.2f * (rows[i + 1] + rows[i] + rows[i + 2] + input[at - 1] + input[at + 1]);
  }
}
