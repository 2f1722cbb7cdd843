// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
// One wavefront per row, four loads of four elements in flight.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void gemv(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y,
                                                       int rows, int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* line = a + (size_t)row * cols;
  float sum = 0.0f;
  int done = 0;
  if ((((size_t)line | (size_t)x) & 15) == 0) {
    const float4 *l4 = (const float4*)line, *x4 = (const float4*)x;
    done = cols / 4 * 4;
#pragma unroll 4
    for (int i = lane; i < cols / 4; i += 64) {
      float4 p = l4[i], q = x4[i];
      sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
  }
  for (int i = done + lane; i < cols; i += 64) sum += line[i] * x[i];
  for (int d = 32; d > 0; d >>= 1) sum += __shfl_xor(sum, d);
  if (lane == 0) y[row] = sum;
}
