// Each wavefront has its part of LDS and exchanges values in it without a workgroup barrier.
#include "../../program.h"
__global__ void bitonic(int *values) {
  __shared__ int all[256];
  volatile int *part = &all[threadIdx.x / 64 * 64];
  int lane = threadIdx.x % 64, i = blockIdx.x * 256 + threadIdx.x, mine = values[i];
  for (int k = 2; k <= 64; k *= 2)
    for (int j = k / 2; j; j /= 2) {
      part[lane] = mine;
      __builtin_amdgcn_wave_barrier();
      int other = part[lane ^ j];
      bool up = (lane & k) == 0, low = (lane & j) == 0;
      mine = up == low ? min(mine, other) : max(mine, other);
      __builtin_amdgcn_wave_barrier();
    }
  values[i] = mine;
}
int main() {
  const int n = 512;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = (i * 29) % 64;
  int *memory = device(values);
  bitonic<<<2, 256>>>(memory);
  bool right = true;
  auto result = host(memory, n);
  for (int i = 0; i < n; i++) right = right && (i % 64 == 0 || result[i - 1] <= result[i]);
  HIP(hipFree(memory));
  return ended(right);
}
