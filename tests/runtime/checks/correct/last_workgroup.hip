// The last workgroup to finish, found by an atomic counter, adds the partial sums of all.
#include "../program.h"
__global__ void sum(const int *in, int *parts, unsigned *finished, int *out) {
  __shared__ bool is_last;
  int t = threadIdx.x;
  atomicAdd(&parts[blockIdx.x], in[blockIdx.x * 256 + t]);
  __threadfence();
  __syncthreads();
  if (t == 0) is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  if (t == 0) {
    int total = 0;
    for (unsigned k = 0; k < gridDim.x; k++) total += parts[k];
    *out = total;
  }
}
int main() {
  int *in = device(std::vector<int>(2560, 1)), *parts = device(std::vector<int>(10)), *out;
  unsigned *finished = device(std::vector<unsigned>(1));
  HIP(hipMalloc(&out, sizeof(int)));
  sum<<<10, 256>>>(in, parts, finished, out);
  bool right = host(out, 1)[0] == 2560;
  HIP(hipFree(in));
  HIP(hipFree(parts));
  HIP(hipFree(out));
  HIP(hipFree(finished));
  return ended(right);
}
