// Adds the weight of each element to the total of its bin. Elements whose bin does not exist are ignored.
#include <hip/hip_runtime.h>

extern "C" __global__ void bincount_i64(const int* bin, const long long* weights, unsigned long long* totals, int n, int bins) {
  size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)n) return;
  int key = bin[i];
  if (key < 0 || key >= bins) return;
  atomicAdd(&totals[key], (unsigned long long)weights[i]);
}
