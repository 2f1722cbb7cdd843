#include <hip/hip_runtime.h>

// Counts how often each of BINS values occurs: one histogram per workgroup in LDS, added to the result at the end.
#ifndef BINS
#define BINS 256
#endif

extern "C" __global__ void histogram(const unsigned int* __restrict__ values, unsigned int* __restrict__ bins, int n) {
  __shared__ unsigned int local[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
  __syncthreads();
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&local[values[i] % BINS], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}
