// A table is filled in part; kernels copy all of it, and use what is filled.
#include "../program.h"
__global__ void copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void sum(const int *table, int filled, int *out) {
  int value = table[threadIdx.x];
  if ((int)threadIdx.x < filled) atomicAdd(out, value);
}
int main() {
  std::vector<int> values(100, 1);
  int *a, *b, *out = device(std::vector<int>(1));
  HIP(hipMalloc(&a, 256 * sizeof(int)));
  HIP(hipMalloc(&b, 256 * sizeof(int)));
  HIP(hipMemcpy(a, values.data(), 100 * sizeof(int), hipMemcpyHostToDevice));
  copy<<<1, 256>>>(a, b);
  sum<<<1, 256>>>(b, 100, out);
  HIP(hipMemcpy(a, b, 256 * sizeof(int), hipMemcpyDeviceToDevice));
  sum<<<1, 256>>>(a, 100, out);
  bool right = host(out, 1)[0] == 200;
  HIP(hipFree(a));
  HIP(hipFree(b));
  HIP(hipFree(out));
  return ended(right);
}
