// y = A x, one wavefront per row, four rows per workgroup.
#include <hip/hip_runtime.h>

extern "C" __global__ void gemv(const float* a, const float* x, float* y, int rows, int cols) {
  int lane = threadIdx.x % 64;
  int row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* line = a + (size_t)row * cols;
  float sum = 0.0f;
  for (int i = lane; i < cols; i += 64) sum += line[i] * x[i];
  for (int distance = 32; distance > 0; distance >>= 1) sum += __shfl_down(sum, distance);
  if (lane == 0) y[row] = sum;
}
