// Scalar product of two vectors in chunks: workgroup g sums chunk g and writes one partial result.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void dot(const float* a, const float* b, float* sums, int n, int chunk) {
  __shared__ float partial[BLOCK];
  int t = threadIdx.x;
  size_t first = (size_t)blockIdx.x * chunk;
  size_t last = first + chunk;
  if (last > (size_t)n) last = n;
  float sum = 0.0f;
  for (size_t i = first + t; i < last; i += BLOCK) sum += a[i] * b[i];
  partial[t] = sum;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) partial[t] += partial[t + stride];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}
