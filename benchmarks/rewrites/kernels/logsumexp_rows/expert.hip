// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void logsumexp(const float* __restrict__ logits, const int* __restrict__ labels,
                                                            float* __restrict__ loss, int rows, int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* line = logits + (size_t)row * cols;
  float largest = -INFINITY, sum = 0.0f;
#pragma unroll 8
  for (int i = lane; i < cols; i += 64) largest = fmaxf(largest, line[i]);
  for (int d = 32; d > 0; d >>= 1) largest = fmaxf(largest, __shfl_xor(largest, d));
#pragma unroll 8
  for (int i = lane; i < cols; i += 64) sum += expf(line[i] - largest);
  for (int d = 32; d > 0; d >>= 1) sum += __shfl_xor(sum, d);
  if (lane == 0) loss[row] = logf(sum) + largest - line[labels[row]];
}
