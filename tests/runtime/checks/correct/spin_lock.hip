// A spin lock protects plain accesses of several workgroups.
#include "../program.h"
__global__ void add(int *lock, int *values) {
  if (threadIdx.x) return;
  int expected = 0;
  while (!__hip_atomic_compare_exchange_strong(lock, &expected, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
    expected = 0;
    __builtin_amdgcn_s_sleep(2);
  }
  for (int k = 0; k < 8; k++) values[k] += k;
  __hip_atomic_store(lock, 0, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
int main() {
  int *lock = device(std::vector<int>(1)), *values = device(std::vector<int>(8));
  add<<<32, 64>>>(lock, values);
  std::vector<int> result = host(values, 8);
  HIP(hipFree(lock));
  HIP(hipFree(values));
  return ended(result[7] == 7 * 32);
}
