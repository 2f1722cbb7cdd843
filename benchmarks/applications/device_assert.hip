// assert() on the device guards the invariants of a ring buffer and does not fire.
#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>

struct Ring {
  static constexpr int capacity = 16;
  int slots[capacity];
  int head = 0, size = 0;
  __host__ __device__ void push(int v) {
    assert(size < capacity && "full");
    slots[(head + size++) % capacity] = v;
  }
  __host__ __device__ int pop() {
    assert(size > 0 && "empty");
    const int v = slots[head];
    head = (head + 1) % capacity;
    size--;
    return v;
  }
};

__host__ __device__ inline int josephus(int n, int step) {  // last of n people in a circle
  Ring ring;
  for (int i = 0; i < n; i++) ring.push(i);
  while (ring.size > 1) {
    for (int k = 1; k < step; k++) ring.push(ring.pop());
    ring.pop();
  }
  return ring.pop();
}

__global__ void solve(int* survivors, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int survivor = josephus(2 + i % 15, 1 + i % 7);
  assert(survivor >= 0 && survivor < Ring::capacity);
  survivors[i] = survivor;
}

int main() {
  const int n = 500;
  int *device, host[n];
  hipError_t status = hipMalloc(&device, sizeof host);
  if (status == hipSuccess) {
    solve<<<(n + 63) / 64, 64>>>(device, n);
    status = hipMemcpy(host, device, sizeof host, hipMemcpyDeviceToHost);
  }
  if (status == hipSuccess) status = hipFree(device);
  if (status != hipSuccess) {
    fprintf(stderr, "%s\n", hipGetErrorString(status));
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += host[i] != josephus(2 + i % 15, 1 + i % 7);
  printf("josephus: %d of %d wrong, no assertion failed\n", wrong, n);
  return wrong ? 1 : 0;
}
