// Group normalisation of images: each group of channels has mean 0 and variance 1, then a factor and an offset per channel apply.
#include <hip/hip_runtime.h>

#define BLOCK 256

__device__ float total_of(float value, float* shared) {
  int t = threadIdx.x;
  shared[t] = value;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) shared[t] += shared[t + stride];
    __syncthreads();
  }
  float total = shared[0];
  __syncthreads();
  return total;
}

extern "C" __global__ void group_norm(const float* input, const float* gamma, const float* beta, float* output, float epsilon,
                                      int group_channels, int pixels) {
  __shared__ float shared[BLOCK];
  int t = threadIdx.x;
  size_t count = (size_t)group_channels * pixels;
  size_t start = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * count;
  const float* x = input + start;
  float sum = 0.0f;
  for (size_t i = t; i < count; i += BLOCK) sum += x[i];
  float mean = total_of(sum, shared) / count;
  float squares = 0.0f;
  for (size_t i = t; i < count; i += BLOCK) {
    float centred = x[i] - mean;
    squares += centred * centred;
  }
  float variance = total_of(squares, shared) / count;
  float scale = 1.0f / sqrtf(variance + epsilon);
  for (size_t i = t; i < count; i += BLOCK) {
    int channel = blockIdx.x * group_channels + (int)(i / pixels);
    output[start + i] = (x[i] - mean) * scale * gamma[channel] + beta[channel];
  }
}
