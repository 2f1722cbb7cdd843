// Two passes in a cooperative kernel: the second reads neighbours that other workgroups write in the first, without grid.sync().
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void smooth(float *a, float *b, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) b[i] = 2 * a[i];  // DEFECT memory_race
  cg::this_thread_block().sync();  // should be grid.sync()
  for (int i = grid.thread_rank(); i < n; i += grid.size()) a[i] = b[(i + 64) % n];  // DEFECT memory_race
}

int main() {
  int n = 1024;
  float *a, *b;
  hipError_t status = hipMalloc(&a, n * sizeof(float));
  if (status == hipSuccess) status = hipMalloc(&b, n * sizeof(float));
  if (status == hipSuccess) status = hipMemset(a, 0, n * sizeof(float));
  void *arguments[] = {&a, &b, &n};
  if (status == hipSuccess) status = hipLaunchCooperativeKernel((void *)smooth, dim3(4), dim3(256), arguments, 0, nullptr);
  if (status == hipSuccess) status = hipDeviceSynchronize();
  std::printf("%s\n", hipGetErrorString(status));
  (void)hipFree(a);
  (void)hipFree(b);
  return status != hipSuccess;
}
