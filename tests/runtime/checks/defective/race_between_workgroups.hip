// Workgroups count in memory without an atomic operation.
#include "../program.h"
__global__ void count(int *total) {
  if (threadIdx.x == 0) *total += 1;  // DEFECT memory_race
}
int main() {
  int *total = device(std::vector<int>(1));
  count<<<16, 64>>>(total);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(total));
}
