// Layer normalisation as a first version is usually written: one workgroup per row, two passes for mean and variance,
// sums through LDS, a division per element.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

__device__ float block_sum(float value, float* partial) {
  int lane = threadIdx.x;
  partial[lane] = value;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (lane < stride) partial[lane] += partial[lane + stride];
    __syncthreads();
  }
  float sum = partial[0];
  __syncthreads();
  return sum;
}

extern "C" __global__ void layernorm(const float* input, const float* gamma, const float* beta, float* output, int cols,
                                     float epsilon) {
  __shared__ float partial[BLOCK];
  const float* row_in = input + (size_t)blockIdx.x * cols;
  float* row_out = output + (size_t)blockIdx.x * cols;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    sum += row_in[i];
  }
  float mean = block_sum(sum, partial) / cols;

  float squares = 0.0f;
  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    squares += (row_in[i] - mean) * (row_in[i] - mean);
  }
  float deviation = sqrtf(block_sum(squares, partial) / cols + epsilon);

  for (int i = threadIdx.x; i < cols; i += BLOCK) {
    row_out[i] = (row_in[i] - mean) / deviation * gamma[i] + beta[i];
  }
}
