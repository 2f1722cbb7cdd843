// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
#include <hip/hip_runtime.h>

__device__ signed char rounded(float value, float factor) {
  return (signed char)(int)fminf(fmaxf(rintf(value * factor), -127.0f), 127.0f);
}

extern "C" __global__ __launch_bounds__(256) void quantize_rows(const float* __restrict__ input, signed char* __restrict__ output,
                                                                float* __restrict__ scale, int rows, int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  signed char* out = output + (size_t)row * cols;
  float largest = 1e-8f;
  bool kept = cols <= 1024;
  float v[16];
  if (kept) {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      v[k] = lane + 64 * k < cols ? in[lane + 64 * k] : 0.0f;
      largest = fmaxf(largest, fabsf(v[k]));
    }
  } else {
    for (int i = lane; i < cols; i += 64) largest = fmaxf(largest, fabsf(in[i]));
  }
  for (int d = 32; d > 0; d >>= 1) largest = fmaxf(largest, __shfl_xor(largest, d));
  float factor = 127.0f / largest;
  if (kept) {
#pragma unroll
    for (int k = 0; k < 16; ++k)
      if (lane + 64 * k < cols) out[lane + 64 * k] = rounded(v[k], factor);
  } else {
    for (int i = lane; i < cols; i += 64) out[i] = rounded(in[i], factor);
  }
  if (lane == 0) scale[row] = largest / 127.0f;
}
