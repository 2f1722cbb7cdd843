// The last workgroup adds the partial sums of all; it resets the counter, and the kernel runs again.
#include "../../program.h"
__device__ unsigned arrived;
__global__ void sum(const float *in, float *parts, float *out, int n) {
  __shared__ float tile[256];
  __shared__ bool last;
  int t = threadIdx.x;
  float value = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) value += in[i];
  tile[t] = value;
  __syncthreads();
  for (int d = 128; d; d /= 2) {
    if (t < d) tile[t] += tile[t + d];
    __syncthreads();
  }
  if (t == 0) {
    parts[blockIdx.x] = tile[0];
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  value = 0;
  for (int i = t; i < int(gridDim.x); i += 256) value += static_cast<volatile float *>(parts)[i];
  tile[t] = value;
  __syncthreads();
  for (int d = 128; d; d /= 2) {
    if (t < d) tile[t] += tile[t + d];
    __syncthreads();
  }
  if (t == 0) *out = tile[0];
}
int main() {
  const int n = 10000, groups = 9;
  float *in = device(std::vector<float>(n, 1)), *parts, *out;
  HIP(hipMalloc(&parts, groups * sizeof(float)));
  HIP(hipMalloc(&out, sizeof(float)));
  bool right = true;
  for (int round = 0; round < 2; round++) {
    sum<<<groups, 256>>>(in, parts, out, n);
    right = right && host(out, 1)[0] == n;
  }
  for (float *memory : {in, parts, out}) HIP(hipFree(memory));
  return ended(right);
}
