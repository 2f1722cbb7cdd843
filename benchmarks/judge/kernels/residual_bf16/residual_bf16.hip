// out = relu(x * scale + residual) in bfloat16, rounded to nearest even.
#include <hip/hip_runtime.h>

__device__ float widened(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

__device__ unsigned short narrowed(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((bits >> 16) | 0x40u);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

extern "C" __global__ void residual_bf16(const unsigned short* x, const unsigned short* residual, unsigned short* out,
                                         float scale, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)n) return;
  float v = widened(x[i]) * scale + widened(residual[i]);
  out[i] = narrowed(v < 0.0f ? 0.0f : v);
}
