// Single-pass scan: each workgroup publishes its sum, and adds those of the workgroups before it.
#include "../program.h"
enum { EMPTY, SUM, PREFIX };
__global__ void scan(const int *in, int *out, int *state, int *sums, int *prefixes, int *ticket) {
  __shared__ int tile[256], group, before;
  int t = threadIdx.x;
  if (t == 0) group = atomicAdd(ticket, 1);
  __syncthreads();
  int i = group * 256 + t;
  tile[t] = in[i];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    int add = t >= d ? tile[t - d] : 0;
    __syncthreads();
    tile[t] += add;
    __syncthreads();
  }
  if (t == 0) {
    sums[group] = tile[255];
    __threadfence();
    atomicExch(&state[group], SUM);
    int sum = 0;
    for (int k = group - 1; k >= 0; k--) {
      int s;
      while ((s = __hip_atomic_load(&state[k], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) == EMPTY) __builtin_amdgcn_s_sleep(1);
      sum += s == PREFIX ? prefixes[k] : sums[k];
      if (s == PREFIX) break;
    }
    prefixes[group] = sum + tile[255];
    __hip_atomic_store(&state[group], PREFIX, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    before = sum;
  }
  __syncthreads();
  out[i] = before + tile[t];
}
int main() {
  const int groups = 20, n = groups * 256;
  int *in = device(std::vector<int>(n, 1)), *out, *sums, *prefixes;
  int *state = device(std::vector<int>(groups)), *ticket = device(std::vector<int>(1));
  HIP(hipMalloc(&out, n * sizeof(int)));
  HIP(hipMalloc(&sums, groups * sizeof(int)));
  HIP(hipMalloc(&prefixes, groups * sizeof(int)));
  scan<<<groups, 256>>>(in, out, state, sums, prefixes, ticket);
  bool right = true;
  std::vector<int> result = host(out, n);
  for (int i = 0; i < n; i++) right = right && result[i] == i + 1;
  for (int *memory : {in, out, sums, prefixes, state, ticket}) HIP(hipFree(memory));
  return ended(right);
}
