#include <hip/hip_runtime.h>

extern "C" __global__ void blur(const float* input, float* output, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int d = -3; d <= 3; ++d) {
    int j = i + d;
    if (j >= 0 && j < n) sum += input[j];
  }
  output[i] = sum / 7.0f;
}
