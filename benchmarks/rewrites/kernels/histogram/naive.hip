#include <hip/hip_runtime.h>

extern "C" __global__ void histogram(const unsigned int* values, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[values[i] % BINS], 1u);
}
