#include <hip/hip_runtime.h>

extern "C" __global__ void total(const float* input, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, input[i]);
}
