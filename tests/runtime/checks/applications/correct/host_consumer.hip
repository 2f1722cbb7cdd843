// A running kernel produces items in mapped host memory, the host consumes them: flags with system scope.
#include "../../program.h"
struct Slot {
  int value, ready;
};
__global__ void produce(Slot *slots, int *credits, int count) {
  for (int i = 0; i < count; i++) {
    Slot *slot = &slots[i % 4];
    while (__hip_atomic_load(credits, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) <= i) __builtin_amdgcn_s_sleep(8);
    slot->value = i * i;
    __hip_atomic_store(&slot->ready, i + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  }
}
int main() {
  Slot *slots;
  int *credits;
  HIP(hipHostMalloc(&slots, 4 * sizeof(Slot), hipHostMallocMapped | hipHostMallocCoherent));
  HIP(hipHostMalloc(&credits, sizeof(int), hipHostMallocMapped | hipHostMallocCoherent));
  for (int i = 0; i < 4; i++) slots[i] = {0, 0};
  *credits = 4;
  produce<<<1, 1>>>(slots, credits, 20);
  bool right = true;
  for (int i = 0; i < 20; i++) {
    Slot *slot = &slots[i % 4];
    while (__atomic_load_n(&slot->ready, __ATOMIC_ACQUIRE) != i + 1) {
    }
    right = right && slot->value == i * i;
    __atomic_fetch_add(credits, 1, __ATOMIC_RELEASE);
  }
  HIP(hipDeviceSynchronize());
  HIP(hipHostFree(slots));
  HIP(hipHostFree(credits));
  return ended(right);
}
