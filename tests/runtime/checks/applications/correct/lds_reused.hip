// One dynamic LDS block holds first keys as bytes, then counters, then floats, with barriers between the phases.
#include "../../program.h"
__global__ void phases(const unsigned char *keys, float *out) {
  extern __shared__ __align__(8) unsigned char raw[];
  int t = threadIdx.x;
  raw[t] = keys[blockIdx.x * 256 + t];
  __syncthreads();
  unsigned char mine = raw[255 - t];
  __syncthreads();
  unsigned *counts = reinterpret_cast<unsigned *>(raw);
  if (t < 64) counts[t] = 0;
  __syncthreads();
  atomicAdd(&counts[mine % 64], 1u);
  __syncthreads();
  unsigned count = t < 64 ? counts[t] : 0;
  __syncthreads();
  float *sums = reinterpret_cast<float *>(raw);
  if (t < 64) sums[t] = count * 0.5f;
  __syncthreads();
  out[blockIdx.x * 256 + t] = sums[t % 64];
}
int main() {
  const int n = 1024;
  std::vector<unsigned char> values(n);
  for (int i = 0; i < n; i++) values[i] = i % 64;
  unsigned char *keys = device(values);
  float *out;
  HIP(hipMalloc(&out, n * sizeof(float)));
  phases<<<n / 256, 256, 256>>>(keys, out);
  bool right = true;
  for (float value : host(out, n)) right = right && value == 2;
  HIP(hipFree(keys));
  HIP(hipFree(out));
  return ended(right);
}
