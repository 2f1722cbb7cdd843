// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void argmax_rows(const float* __restrict__ input, int* __restrict__ position, int rows,
                                                              int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float best = -INFINITY;
  int where = 0x7fffffff;
#pragma unroll 8
  for (int i = lane; i < cols; i += 64) {
    float value = in[i];
    if (value > best) {
      best = value;
      where = i;
    }
  }
  for (int d = 32; d > 0; d >>= 1) {
    float other = __shfl_xor(best, d);
    int place = __shfl_xor(where, d);
    if (other > best || (other == best && place < where)) {
      best = other;
      where = place;
    }
  }
  if (lane == 0) position[row] = where == 0x7fffffff ? 0 : where;
}
