// A workgroup resets a counter although its own atomic returned that others have not counted yet.
#include "../program.h"
__global__ void count(unsigned *counter, unsigned *seen) {
  if (threadIdx.x) return;
  seen[blockIdx.x] = atomicAdd(counter, 1u);  // DEFECT memory_race
  if (seen[blockIdx.x] == 0) *counter = 0;  // DEFECT memory_race
}
int main() {
  unsigned *counter = device(std::vector<unsigned>(1)), *seen = device(std::vector<unsigned>(16));
  count<<<16, 64>>>(counter, seen);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(counter));
  HIP(hipFree(seen));
}
