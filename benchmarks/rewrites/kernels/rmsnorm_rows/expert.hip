// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void rmsnorm_rows(const __half* __restrict__ input, const float* __restrict__ weight,
                                                               float* __restrict__ output, int rows, int cols, float epsilon) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const __half* in = input + (size_t)row * cols;
  float* out = output + (size_t)row * cols;
  float squares = 0.0f;
  if (cols <= 1024) {
    float kept[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = lane + 64 * k;
      kept[k] = i < cols ? __half2float(in[i]) : 0.0f;
      squares += kept[k] * kept[k];
    }
    for (int d = 32; d > 0; d >>= 1) squares += __shfl_xor(squares, d);
    float scale = 1.0f / sqrtf(squares / cols + epsilon);
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = lane + 64 * k;
      if (i < cols) out[i] = kept[k] * scale * weight[i];
    }
    return;
  }
  for (int i = lane; i < cols; i += 64) squares += __half2float(in[i]) * __half2float(in[i]);
  for (int d = 32; d > 0; d >>= 1) squares += __shfl_xor(squares, d);
  float scale = 1.0f / sqrtf(squares / cols + epsilon);
  for (int i = lane; i < cols; i += 64) out[i] = __half2float(in[i]) * scale * weight[i];
}
