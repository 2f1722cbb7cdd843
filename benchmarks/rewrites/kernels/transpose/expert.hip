// rocm-perf launch: {"grid": ["ceil_div(cols, 64)", "ceil_div(rows, 64)"], "block": [64, 8]}
#include <hip/hip_runtime.h>

extern "C" __global__ void transpose(const float* __restrict__ input, float* __restrict__ output, int rows, int cols) {
  __shared__ float tile[64][65];
  int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
#pragma unroll
  for (int step = 0; step < 64; step += 8)
    if (x < cols && y + step < rows) tile[threadIdx.y + step][threadIdx.x] = input[(size_t)(y + step) * cols + x];
  __syncthreads();
  x = blockIdx.y * 64 + threadIdx.x;
  y = blockIdx.x * 64 + threadIdx.y;
#pragma unroll
  for (int step = 0; step < 64; step += 8)
    if (x < rows && y + step < cols) output[(size_t)(y + step) * rows + x] = tile[threadIdx.x][threadIdx.y + step];
}
