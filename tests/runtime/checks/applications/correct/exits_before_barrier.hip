// Whole wavefronts end before the barrier; the others go on.
#include "../../program.h"
__global__ void sum(const int *in, int *out, int n) {
  __shared__ int parts[16];
  int t = threadIdx.x, wave = t / 64, waves = (n + 63) / 64;
  if (wave >= waves) return;
  int value = t < n ? in[t] : 0;
  for (int d = 32; d; d /= 2) value += __shfl_down(value, d);
  if (t % 64 == 0) parts[wave] = value;
  __syncthreads();
  if (t >= 64) return;
  value = t < waves ? parts[t] : 0;
  for (int d = 8; d; d /= 2) value += __shfl_down(value, d);
  if (t == 0) *out = value;
}
int main() {
  const int n = 300;
  int *in = device(std::vector<int>(n, 1)), *out;
  HIP(hipMalloc(&out, sizeof(int)));
  sum<<<1, 1024>>>(in, out, n);
  bool right = host(out, 1)[0] == n;
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
