// A kernel produces records into a ring in coherent host memory while a host thread consumes them: system-scope atomics on both sides.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <thread>

constexpr unsigned kSlots = 8, kRecords = 100;
struct Ring {
  unsigned head;  // written by the device
  char pad[60];
  unsigned tail;  // written by the host
  char pad2[60];
  unsigned long long slots[kSlots];
};

__global__ void produce(Ring *ring) {
  for (unsigned i = 0; i < kRecords; ++i) {
    while (i - __hip_atomic_load(&ring->tail, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) >= kSlots) __builtin_amdgcn_s_sleep(10);
    ring->slots[i % kSlots] = 1000ull * i;
    __hip_atomic_store(&ring->head, i + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  }
}

int main() {
  Ring *ring;
  if (hipHostMalloc((void **)&ring, sizeof *ring, hipHostMallocCoherent | hipHostMallocMapped) != hipSuccess) return 1;
  ring->head = ring->tail = 0;
  unsigned long long sum = 0;
  std::thread consumer([&] {
    for (unsigned i = 0; i < kRecords; ++i) {
      while (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == i) std::this_thread::yield();
      sum += ring->slots[i % kSlots];
      __atomic_store_n(&ring->tail, i + 1, __ATOMIC_RELEASE);
    }
  });
  produce<<<1, 1>>>(ring);
  consumer.join();
  if (hipDeviceSynchronize() != hipSuccess || hipHostFree(ring) != hipSuccess) return 1;
  if (sum != 1000ull * kRecords * (kRecords - 1) / 2) return 2;
  std::puts("right");
}
