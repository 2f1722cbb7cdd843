#include <hip/hip_runtime.h>

extern "C" __global__ void dropout(const float* input, float* output, int n, unsigned int seed, float keep) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int x = (unsigned int)i * 0x9E3779B9u + seed;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x ^= x >> 16;
  float uniform = (float)(x >> 8) * 5.9604644775390625e-8f;
  output[i] = uniform < keep ? input[i] / keep : 0.0f;
}
