// Cooperative launch: Jacobi steps separated by grid barriers, with swapped buffers and a residual that is reset.
#include "../../program.h"
#include <hip/hip_cooperative_groups.h>
__global__ void jacobi(float *now, float *next, float *residuals, int n, int steps) {
  auto grid = cooperative_groups::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int step = 0; step < steps; step++) {
    if (i < n) {
      float left = i ? now[i - 1] : 0, right = i + 1 < n ? now[i + 1] : 0;
      next[i] = 0.5f * (left + right);
      atomicAdd(&residuals[step & 1], fabsf(next[i] - now[i]));
    }
    grid.sync();
    if (residuals[step & 1] == 0) break;
    grid.sync();
    if (i == 0) residuals[step & 1] = 0;
    float *swapped = now;
    now = next;
    next = swapped;
  }
}
int main() {
  int n = 700, steps = 6;
  float *now = device(std::vector<float>(n, 1)), *next = device(std::vector<float>(n, 0)), *residuals = device(std::vector<float>(2));
  void *arguments[] = {&now, &next, &residuals, &n, &steps};
  HIP(hipLaunchCooperativeKernel(reinterpret_cast<void *>(jacobi), dim3(3), dim3(256), arguments, 0, nullptr));
  HIP(hipDeviceSynchronize());
  bool right = host(now, n)[350] == 1;
  for (float *memory : {now, next, residuals}) HIP(hipFree(memory));
  return ended(right);
}
