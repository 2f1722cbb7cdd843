// RMS normalisation over rows in half precision, one workgroup per row; sums in single precision.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void rmsnorm(const __half* input, const __half* weight, __half* output, int cols, float epsilon) {
  __shared__ float partial[BLOCK];
  const __half* row_in = input + (size_t)blockIdx.x * cols;
  __half* row_out = output + (size_t)blockIdx.x * cols;
  int t = threadIdx.x;
  float sum = 0.0f;
  for (int i = t; i < cols; i += BLOCK) {
    float v = __half2float(row_in[i]);
    sum += v * v;
  }
  partial[t] = sum;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) partial[t] += partial[t + stride];
    __syncthreads();
  }
  float scale = 1.0f / sqrtf(partial[0] / cols + epsilon);
  for (int i = t; i < cols; i += BLOCK) {
    row_out[i] = __float2half(__half2float(row_in[i]) * scale * __half2float(weight[i]));
  }
}
