// Fair lock of workgroups: ticket and turn; the protected counter is an ordinary variable.
#include "../../program.h"
struct Lock {
  unsigned next, turn;
};
__global__ void increment(Lock *lock, long *counter, long *order) {
  if (threadIdx.x == 0) {
    unsigned mine = atomicAdd(&lock->next, 1u);
    while (__hip_atomic_load(&lock->turn, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != mine) __builtin_amdgcn_s_sleep(2);
    order[*counter] = blockIdx.x;
    *counter += 1;
    __hip_atomic_fetch_add(&lock->turn, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
}
int main() {
  const int groups = 16;
  Lock *lock = device(std::vector<Lock>(1));
  long *counter = device(std::vector<long>(1)), *order;
  HIP(hipMalloc(&order, groups * sizeof(long)));
  increment<<<groups, 64>>>(lock, counter, order);
  bool right = host(counter, 1)[0] == groups;
  long sum = 0;
  for (long group : host(order, groups)) sum += group;
  HIP(hipFree(lock));
  HIP(hipFree(counter));
  HIP(hipFree(order));
  return ended(right && sum == groups * (groups - 1) / 2);
}
