// 64-bit atomic additions to a member of a packed structure.
#include "../../program.h"
struct __attribute__((packed)) Record {
  unsigned id;
  unsigned long long count;
};
__global__ void count(Record *records, int n) {
  int i = threadIdx.x;
  unsigned long long *counter = reinterpret_cast<unsigned long long *>(reinterpret_cast<char *>(&records[i % n]) + 4);
  atomicAdd(counter, 1ull);  // DEFECT misaligned
}
int main() {
  Record *records;
  HIP(hipMalloc(&records, 4 * sizeof(Record)));
  HIP(hipMemset(records, 0, 4 * sizeof(Record)));
  count<<<1, 64>>>(records, 4);
  (void)hipDeviceSynchronize();
  (void)hipFree(records);
  return 0;
}
