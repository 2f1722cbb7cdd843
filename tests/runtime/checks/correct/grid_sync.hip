// A cooperative launch: workgroups exchange data between two barriers of the grid.
#include "../program.h"
#include <hip/hip_cooperative_groups.h>
__global__ void exchange(int *data, int *out) {
  auto grid = cooperative_groups::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  data[i] = i;
  grid.sync();
  int other = data[n - 1 - i];
  grid.sync();
  data[i] = other + 1;
  out[i] = other;
}
int main() {
  int *data, *out;
  HIP(hipMalloc(&data, 1024 * sizeof(int)));
  HIP(hipMalloc(&out, 1024 * sizeof(int)));
  void *arguments[] = {&data, &out};
  HIP(hipLaunchCooperativeKernel(reinterpret_cast<void *>(exchange), dim3(8), dim3(128), arguments, 0, 0));
  bool right = host(out, 1024)[0] == 1023;
  HIP(hipFree(data));
  HIP(hipFree(out));
  return ended(right);
}
