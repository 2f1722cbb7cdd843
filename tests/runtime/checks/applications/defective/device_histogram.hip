// Histogram in a __device__ array: values up to 255 fall into 128 bins.
#include "../../program.h"
__device__ unsigned bins[128];
__device__ unsigned total;
__global__ void histogram(const unsigned char *in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[in[i] >> 0], 1u);  // DEFECT out_of_bounds
    atomicAdd(&total, 1u);
  }
}
int main() {
  const int n = 4096;
  std::vector<unsigned char> values(n);
  for (int i = 0; i < n; i++) values[i] = i % 200;
  unsigned char *in = device(values);
  histogram<<<4, 256>>>(in, n);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  return ended(true);
}
