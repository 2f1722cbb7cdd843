// Used bins of a histogram in LDS: 128 work-items clear 256 bins once instead of in a loop.
#include "../../program.h"
__global__ void histogram(const unsigned char *in, unsigned *out, int n) {
  __shared__ unsigned bins[256];
  int t = threadIdx.x;
  if (t < 256) bins[t] = 0;
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = t; i < 256; i += blockDim.x)
    if (bins[i]) atomicAdd(&out[i % 4], 1u);  // DEFECT lds_uninitialised
}
int main() {
  const int n = 2000;
  std::vector<unsigned char> values(n);
  for (int i = 0; i < n; i++) values[i] = i % 100;
  unsigned char *in = device(values);
  unsigned *out = device(std::vector<unsigned>(256));
  histogram<<<1, 128>>>(in, out, n);
  host(out, 256);
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
