// rocm-perf launch: {"grid": ["ceil_div(rows, 8)"], "block": [256]}
// Half a wavefront per row.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void spmv(const float* __restrict__ values, const int* __restrict__ columns,
                                                       const int* __restrict__ lengths, const float* __restrict__ x,
                                                       float* __restrict__ y, int rows, int width) {
  int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  int length = lengths[row];
  const float* v = values + (size_t)row * width;
  const int* c = columns + (size_t)row * width;
  float sum = 0.0f;
#pragma unroll 4
  for (int i = lane; i < length; i += 32) sum += v[i] * x[c[i]];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor(sum, d);
  if (lane == 0) y[row] = sum;
}
