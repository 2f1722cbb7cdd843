// Row softmax with block reductions by atomics in LDS: every work-item adds to the same place, one after another.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void softmax_atomics(const float* input, float* output, int cols) {
  __shared__ int largest_bits;
  __shared__ float total;
  const float* row_in = input + (size_t)blockIdx.x * cols;
  float* row_out = output + (size_t)blockIdx.x * cols;
  if (threadIdx.x == 0) {
    largest_bits = (int)0x80000000;
    total = 0.0f;
  }
  __syncthreads();

  float largest = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    largest = fmaxf(largest, row_in[i]);
  }
  // Floats as integers that are in the same order.
  int bits = __float_as_int(largest);
  int ordered = bits >= 0 ? bits : bits ^ 0x7fffffff;
  atomicMax(&largest_bits, ordered);
  __syncthreads();
  int found = largest_bits;
  largest = __int_as_float(found >= 0 ? found : found ^ 0x7fffffff);

  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    sum += expf(row_in[i] - largest);
  }
  atomicAdd(&total, sum);
  __syncthreads();
  sum = total;

  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    row_out[i] = expf(row_in[i] - largest) / sum;
  }
}
