#include <hip/hip_runtime.h>

extern "C" __global__ void gemv(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < cols; ++i) sum += a[(size_t)row * cols + i] * x[i];
  y[row] = sum;
}
