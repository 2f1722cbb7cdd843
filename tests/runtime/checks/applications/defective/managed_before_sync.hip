// The host sums managed memory directly after the launch.
#include "../../program.h"
constexpr int N = 4096;
__global__ void iota(int *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = i;  // DEFECT host_race
}
int main() {
  int *values;
  HIP(hipMallocManaged(&values, N * sizeof(int)));
  for (int i = 0; i < N; i++) values[i] = 0;
  iota<<<N / 256, 256>>>(values);  // DEFECT host_race
  long sum = 0;
  for (int i = 0; i < N; i++) sum += values[i];  // DEFECT host_race
  HIP(hipDeviceSynchronize());
  std::fprintf(stderr, "%ld\n", sum);
  HIP(hipFree(values));
  return ended(true);
}
