// Products of interleaved complex numbers; the second factor is conjugated if `conjugate` is not zero.
#include <hip/hip_runtime.h>

extern "C" __global__ void complex_mul(const float* a, const float* b, float* out, int conjugate, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)n) return;
  float ar = a[2 * i], ai = a[2 * i + 1];
  float br = b[2 * i], bi = conjugate ? -b[2 * i + 1] : b[2 * i + 1];
  out[2 * i] = ar * br - ai * bi;
  out[2 * i + 1] = ar * bi + ai * br;
}
