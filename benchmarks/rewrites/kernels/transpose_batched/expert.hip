// rocm-perf launch: {"grid": ["ceil_div(width, 64)", "ceil_div(steps, 64)", "batch"], "block": [64, 8]}
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ void heads_first(const __half* __restrict__ input, __half* __restrict__ output, int steps, int width) {
  __shared__ __half tile[64][66];
  size_t item = (size_t)blockIdx.z * width * steps;
  int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
#pragma unroll
  for (int i = 0; i < 64; i += 8)
    if (x < width && y + i < steps) tile[threadIdx.y + i][threadIdx.x] = input[item + (size_t)(y + i) * width + x];
  __syncthreads();
  x = blockIdx.y * 64 + threadIdx.x;
  y = blockIdx.x * 64 + threadIdx.y;
#pragma unroll
  for (int i = 0; i < 64; i += 8)
    if (x < steps && y + i < width) output[item + (size_t)(y + i) * steps + x] = tile[threadIdx.x][threadIdx.y + i];
}
