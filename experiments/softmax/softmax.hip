// Row softmax as a first version is usually written: one workgroup per row, three passes over global memory,
// block reductions through LDS.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void softmax_kernel(const float* input, float* output, int cols) {
  __shared__ float partial[BLOCK];
  const float* row_in = input + (size_t)blockIdx.x * cols;
  float* row_out = output + (size_t)blockIdx.x * cols;
  int lane = threadIdx.x;

  // Pass 1: the largest element, so that exp() cannot overflow.
  float largest = -INFINITY;
  for (int i = lane; i < cols; i += BLOCK) {
    largest = fmaxf(largest, row_in[i]);
  }
  partial[lane] = largest;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (lane < stride) partial[lane] = fmaxf(partial[lane], partial[lane + stride]);
    __syncthreads();
  }
  largest = partial[0];
  __syncthreads();

  // Pass 2: the sum of the exponentials.
  float sum = 0.0f;
  for (int i = lane; i < cols; i += BLOCK) {
    sum += expf(row_in[i] - largest);
  }
  partial[lane] = sum;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (lane < stride) partial[lane] += partial[lane + stride];
    __syncthreads();
  }
  sum = partial[0];

  // Pass 3: the exponentials again, divided by their sum.
  for (int i = lane; i < cols; i += BLOCK) {
    row_out[i] = expf(row_in[i] - largest) / sum;
  }
}
