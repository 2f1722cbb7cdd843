// The number of workgroups is rounded down: a small problem launches an empty grid.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

struct LaunchConfiguration {
  dim3 grid, block;
  static LaunchConfiguration of(unsigned rows, unsigned columns) {
    dim3 block(32, 8);
    return {dim3(columns / block.x, rows / block.y), block};
  }
};

__global__ void fill(float *m, unsigned columns) {
  m[(blockIdx.y * blockDim.y + threadIdx.y) * columns + blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

int main() {
  for (auto [rows, columns] : std::vector<std::pair<unsigned, unsigned>>{{64, 64}, {8, 16}}) {
    float *m = nullptr;
    if (hipMalloc(&m, rows * columns * sizeof(float)) != hipSuccess) return 1;
    auto configuration = LaunchConfiguration::of(rows, columns);
    fill<<<configuration.grid, configuration.block>>>(m, columns);  // DEFECT bad_geometry|failed_launch
    (void)hipDeviceSynchronize();
    (void)hipFree(m);
  }
  std::puts("ended");
}
