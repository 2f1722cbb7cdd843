#include <hip/hip_runtime.h>

extern "C" __global__ void gelu_bias(const float* input, const float* bias, float* output, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = input[i] + bias[i % cols];
    output[i] = 0.5f * x * (1.0f + erff(x / sqrtf(2.0f)));
  }
}
