// Bit set with atomic OR and AND; a later kernel reads the words plainly; neighbouring bytes are written by different workgroups.
#include "../../program.h"
__global__ void mark(unsigned *bits, unsigned char *bytes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (i % 3 == 0) atomicOr(&bits[i / 32], 1u << (i % 32));
  if (i % 6 == 0) atomicAnd(&bits[i / 32], ~(1u << (i % 32)));
  bytes[(i * 8 + i / 64) % n] = i % 251;
}
__global__ void count(const unsigned *bits, int words, int *total) {
  int sum = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x) sum += __popc(bits[i]);
  atomicAdd(total, sum);
}
int main() {
  const int n = 512;
  unsigned *bits = device(std::vector<unsigned>(n / 32));
  unsigned char *bytes = device(std::vector<unsigned char>(n));
  int *total = device(std::vector<int>(1));
  mark<<<8, 64>>>(bits, bytes, n);
  count<<<1, 64>>>(bits, n / 32, total);
  int expected = 0;
  for (int i = 0; i < n; i++) expected += i % 3 == 0 && i % 6 != 0;
  bool right = host(total, 1)[0] == expected;
  HIP(hipFree(bits));
  HIP(hipFree(bytes));
  HIP(hipFree(total));
  return ended(right);
}
