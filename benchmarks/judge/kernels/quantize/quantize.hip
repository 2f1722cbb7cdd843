// Quantisation of rows to 8-bit integers with one scale per row: the largest magnitude becomes 127, ties round to even.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void quantize(const float* input, signed char* output, float* scales, int cols) {
  __shared__ float partial[BLOCK];
  const float* row = input + (size_t)blockIdx.x * cols;
  int t = threadIdx.x;
  float largest = 0.0f;
  for (int i = t; i < cols; i += BLOCK) largest = fmaxf(largest, fabsf(row[i]));
  partial[t] = largest;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) partial[t] = fmaxf(partial[t], partial[t + stride]);
    __syncthreads();
  }
  largest = partial[0];
  float scale = largest > 0.0f ? largest / 127.0f : 1.0f;
  if (t == 0) scales[blockIdx.x] = scale;
  for (int i = t; i < cols; i += BLOCK) {
    float q = rintf(row[i] / scale);
    output[(size_t)blockIdx.x * cols + i] = (signed char)fminf(fmaxf(q, -127.0f), 127.0f);
  }
}
