// Whole wavefronts and the last lanes leave before a barrier, which does not wait for them.
#include "../program.h"
__global__ void sum(const int *in, int *out, int n) {
  __shared__ int part[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  if (i >= n) return;
  part[t] = in[i];
  __syncthreads();
  if (t == 0) {
    int total = 0, count = n - blockIdx.x * 256 < 256 ? n - blockIdx.x * 256 : 256;
    for (int k = 0; k < count; k++) total += part[k];
    atomicAdd(out, total);
  }
}
int main() {
  int *in = device(std::vector<int>(700, 1)), *out = device(std::vector<int>(1));
  sum<<<3, 256>>>(in, out, 700);
  bool right = host(out, 1)[0] == 700;
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
