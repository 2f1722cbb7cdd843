// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
// One wavefront per row; rows of up to 1024 elements stay in registers.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void softmax_rows(const float* __restrict__ input, float* __restrict__ output, int rows,
                                                               int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float* out = output + (size_t)row * cols;
  float largest = -INFINITY, sum = 0.0f;
  if (cols <= 1024) {
    float kept[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = lane + 64 * k;
      kept[k] = i < cols ? in[i] : -INFINITY;
      largest = fmaxf(largest, kept[k]);
    }
    for (int d = 32; d > 0; d >>= 1) largest = fmaxf(largest, __shfl_xor(largest, d));
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      kept[k] = expf(kept[k] - largest);
      sum += kept[k];
    }
    for (int d = 32; d > 0; d >>= 1) sum += __shfl_xor(sum, d);
    float scale = 1.0f / sum;
#pragma unroll
    for (int k = 0; k < 16; ++k)
      if (lane + 64 * k < cols) out[lane + 64 * k] = kept[k] * scale;
    return;
  }
  for (int i = lane; i < cols; i += 64) largest = fmaxf(largest, in[i]);
  for (int d = 32; d > 0; d >>= 1) largest = fmaxf(largest, __shfl_xor(largest, d));
  for (int i = lane; i < cols; i += 64) sum += expf(in[i] - largest);
  for (int d = 32; d > 0; d >>= 1) sum += __shfl_xor(sum, d);
  float scale = 1.0f / sum;
  for (int i = lane; i < cols; i += 64) out[i] = expf(in[i] - largest) * scale;
}
