// hipMemset is given the number of elements, so three quarters of the distances stay unwritten.
#include "../../program.h"
__global__ void relax(const int *edges, int *distance, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int to = edges[i];
  if (distance[to] == 0 && to != 0) atomicExch(&distance[to], 1);  // DEFECT memory_uninitialised
}
int main() {
  const int n = 1024;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = (i + 1) % n;
  int *edges = device(values), *distance;
  HIP(hipMalloc(&distance, n * sizeof(int)));
  HIP(hipMemset(distance, 0, n));
  relax<<<4, 256>>>(edges, distance, n);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(edges));
  HIP(hipFree(distance));
  return ended(true);
}
