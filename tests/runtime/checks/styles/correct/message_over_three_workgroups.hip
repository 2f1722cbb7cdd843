// A message passes transitively over three workgroups; the last reads what the first wrote. Acquire fences follow relaxed polling.
#include <hip/hip_runtime.h>
#include <cstdio>

__device__ int payload[128];
__device__ unsigned first, second;

__device__ void wait_for(unsigned *flag) {
  while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(2);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
__device__ void raise(unsigned *flag) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  __hip_atomic_store(flag, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

__global__ void relay(int *out) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    payload[t] = 11 * t;
    __syncthreads();
    if (t == 0) raise(&first);
  } else if (blockIdx.x == 1) {
    if (t == 0) {
      wait_for(&first);
      raise(&second);
    }
  } else {
    if (t == 0) wait_for(&second);
    __syncthreads();
    out[t] = payload[127 - t];
  }
}

int main() {
  int *out, host[128];
  if (hipMalloc(&out, sizeof host) != hipSuccess) return 1;
  relay<<<3, 128>>>(out);
  if (hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost) != hipSuccess || hipFree(out) != hipSuccess) return 1;
  if (host[0] != 11 * 127) return 2;
  unsigned raised = 0;
  if (hipMemcpyFromSymbol(&raised, HIP_SYMBOL(second), sizeof raised) != hipSuccess || raised != 1) return 3;
  std::puts("right");
}
