// A loop of compare-and-swaps on a word of LDS starts with an ordinary load of it.
#include "../program.h"
__global__ void largest(const int *in, int *out) {
  __shared__ int best;
  int t = threadIdx.x, value = in[t];
  if (t == 0) best = 0;
  __syncthreads();
  int old = best;
  while (old < value) {
    int seen = atomicCAS(&best, old, value);
    if (seen == old) break;
    old = seen;
  }
  __syncthreads();
  if (t == 0) *out = best;
}
int main() {
  std::vector<int> values(256);
  for (int k = 0; k < 256; k++) values[k] = k * 37 % 256;
  int *in = device(values), *out = device(std::vector<int>(1));
  largest<<<1, 256>>>(in, out);
  bool right = host(out, 1)[0] == 255;
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
