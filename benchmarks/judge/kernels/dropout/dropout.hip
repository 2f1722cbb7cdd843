// Dropout: an element is kept with the probability keep / 65536, decided by a hash of its position and a seed, and scaled.
#include <hip/hip_runtime.h>

__device__ unsigned hashed(unsigned value) {
  value ^= value >> 16;
  value *= 0x7feb352du;
  value ^= value >> 15;
  value *= 0x846ca68bu;
  value ^= value >> 16;
  return value;
}

extern "C" __global__ void dropout(const float* input, float* output, unsigned* mask, float factor, unsigned seed, int keep, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)n) return;
  bool kept = (int)(hashed(hashed((unsigned)i) ^ seed) >> 16) < keep;
  output[i] = kept ? input[i] * factor : 0.0f;
  mask[i] = kept;
}
