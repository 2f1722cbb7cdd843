// The counters of a histogram are not set to zero.
#include "../program.h"
__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[in[i]], 1u);  // DEFECT memory_uninitialised
}
int main() {
  unsigned char *in = device(std::vector<unsigned char>(1024, 3));
  unsigned *bins;
  HIP(hipMalloc(&bins, 256 * sizeof *bins));
  histogram<<<4, 256>>>(in, bins, 1024);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(bins));
}
