// Jacobi iteration that writes into its input: workgroups read borders that their neighbours overwrite.
#include <hip/hip_runtime.h>
#include <cstdio>

template <typename Real>
__global__ void relax(Real *grid, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  const Real sum = grid[y * width + x - 1] + grid[y * width + x + 1] + grid[(y - 1) * width + x] + grid[(y + 1) * width + x];  // DEFECT memory_race
  grid[y * width + x] = sum / 4;  // DEFECT memory_race
}

int main() {
  const int width = 66, height = 34;
  double *grid;
  if (hipMalloc(&grid, width * height * sizeof(double)) != hipSuccess) return 1;
  if (hipMemset(grid, 0, width * height * sizeof(double)) != hipSuccess) return 1;
  relax<<<dim3(4, 4), dim3(16, 8)>>>(grid, width, height);
  if (hipDeviceSynchronize() != hipSuccess || hipFree(grid) != hipSuccess) return 1;
  std::puts("ended");
}
