// Breadth-first search: work-items append to a queue with atomics, and read its size plainly in the same launch.
#include "../../program.h"
__global__ void expand(const int *frontier, int count, int *queue, int *size, int *last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  if (frontier[i] % 3 == 0) queue[atomicAdd(size, 1)] = frontier[i];  // DEFECT memory_race
  if (threadIdx.x == 0) last[blockIdx.x] = *size;                     // DEFECT memory_race
}
int main() {
  const int n = 2048;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = i;
  int *frontier = device(values), *queue = device(std::vector<int>(n)), *size = device(std::vector<int>(1)), *last = device(std::vector<int>(8));
  expand<<<8, 256>>>(frontier, n, queue, size, last);
  HIP(hipDeviceSynchronize());
  for (int *memory : {frontier, queue, size, last}) HIP(hipFree(memory));
  return ended(true);
}
