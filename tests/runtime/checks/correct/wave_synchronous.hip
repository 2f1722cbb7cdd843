// The lanes of one wavefront exchange data in LDS without a barrier.
#include "../program.h"
__global__ void sum(const int *in, int *out) {
  __shared__ volatile int part[64];
  int t = threadIdx.x;
  part[t] = in[blockIdx.x * 64 + t];
  for (int half = 32; half; half /= 2) {
    __builtin_amdgcn_wave_barrier();
    if (t < half) part[t] = part[t] + part[t + half];
  }
  if (t == 0) out[blockIdx.x] = part[0];
}
int main() {
  int *in = device(std::vector<int>(640, 1)), *out;
  HIP(hipMalloc(&out, 10 * sizeof(int)));
  sum<<<10, 64>>>(in, out);
  bool right = host(out, 10)[9] == 64;
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
