// Spin locks per bucket, with a guard class and a lambda as the critical section; the protected data is plain.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

class SpinLock {
 public:
  __device__ bool try_lock() {
    unsigned expected = 0;
    return __hip_atomic_compare_exchange_strong(&state_, &expected, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }
  __device__ void unlock() { __hip_atomic_store(&state_, 0u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
  // The lanes of a wavefront take turns, since one that waits would keep the owner from going on.
  template <class Section>
  __device__ void with(Section section) {
    for (int turn = 0; turn < warpSize; turn++) {
      if (turn != __lane_id()) continue;
      while (!try_lock()) __builtin_amdgcn_s_sleep(1);
      section();
      unlock();
    }
  }

 private:
  unsigned state_;
};

struct Bucket {
  SpinLock lock;
  int count, smallest, largest;
};

__global__ void insert(Bucket *buckets, const int *values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int value = values[i];
  Bucket &bucket = buckets[value % 4];
  bucket.lock.with([&] {
    if (bucket.count++ == 0) bucket.smallest = bucket.largest = value;
    if (value < bucket.smallest) bucket.smallest = value;
    if (value > bucket.largest) bucket.largest = value;
  });
}

int main() {
  constexpr int n = 300;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = (i * 7919) % 1000;
  int *device;
  Bucket *buckets, host[4];
  if (hipMalloc(&device, n * sizeof(int)) || hipMalloc(&buckets, sizeof host)) return 1;
  if (hipMemcpy(device, values.data(), n * sizeof(int), hipMemcpyHostToDevice) || hipMemset(buckets, 0, sizeof host)) return 1;
  insert<<<5, 64>>>(buckets, device, n);
  if (hipMemcpy(host, buckets, sizeof host, hipMemcpyDeviceToHost) || hipFree(device) || hipFree(buckets)) return 1;
  int total = 0;
  for (const Bucket &bucket : host) total += bucket.count;
  if (total != n) return 2;
  std::puts("right");
}
