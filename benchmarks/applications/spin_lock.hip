// A spin lock and a ticket lock protect plain data in memory; one thread per block enters the critical section.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define HIP_CHECK(x)                                                                       \
  if (auto e = (x); e != hipSuccess) {                                                     \
    printf("%s at %s:%d\n", hipGetErrorName(e), __FILE__, __LINE__);                       \
    exit(1);                                                                               \
  }

struct SpinLock {
  int taken;
  __device__ void lock() {
    while (__hip_atomic_exchange(&taken, 1, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
  }
  __device__ void unlock() { __hip_atomic_store(&taken, 0, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
};

struct TicketLock {
  unsigned next, serving;
  __device__ void lock() {
    const unsigned ticket = __hip_atomic_fetch_add(&next, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (__hip_atomic_load(&serving, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != ticket) __builtin_amdgcn_s_sleep(2);
  }
  __device__ void unlock() { __hip_atomic_fetch_add(&serving, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
};

struct Account {  // plain members: only the lock orders their accesses
  SpinLock spin;
  TicketLock ticket;
  int balance, entries, largest;
  unsigned history[256];
};

template <typename Lock>
__device__ void deposit(Lock& lock, Account* a, int amount) {
  lock.lock();
  a->balance += amount;
  a->history[a->entries] = blockIdx.x;
  a->entries++;
  if (a->balance > a->largest) a->largest = a->balance;
  lock.unlock();
}

__global__ void with_spin(Account* a) {
  if (threadIdx.x == 0) deposit(a->spin, a, int(blockIdx.x) % 10 + 1);
}
__global__ void with_tickets(Account* a) {
  if (threadIdx.x == 0) deposit(a->ticket, a, int(blockIdx.x) % 7 + 1);
}

int main() {
  Account *device, account;
  HIP_CHECK(hipMalloc(&device, 2 * sizeof(Account)));
  HIP_CHECK(hipMemset(device, 0, 2 * sizeof(Account)));
  const int blocks = 200;
  with_spin<<<blocks, 64>>>(device);
  with_tickets<<<blocks, 64>>>(device + 1);
  HIP_CHECK(hipGetLastError());
  int failures = 0;
  for (int k = 0; k < 2; k++) {
    HIP_CHECK(hipMemcpy(&account, device + k, sizeof account, hipMemcpyDeviceToHost));
    int expected = 0, seen[blocks] = {};
    for (int b = 0; b < blocks; b++) expected += b % (k ? 7 : 10) + 1;
    for (int i = 0; i < account.entries && i < blocks; i++) seen[account.history[i] % blocks]++;
    int once = 0;
    for (int s : seen) once += s == 1;
    const bool right = account.balance == expected && account.largest == expected && account.entries == blocks && once == blocks;
    printf("%s lock: balance %d, %d entries, %d blocks once\n", k ? "ticket" : "spin", account.balance, account.entries, once);
    failures += !right;
  }
  HIP_CHECK(hipFree(device));
  return failures;
}
