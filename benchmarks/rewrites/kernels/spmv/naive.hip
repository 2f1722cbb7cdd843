#include <hip/hip_runtime.h>

extern "C" __global__ void spmv(const float* values, const int* columns, const int* lengths, const float* x, float* y, int rows,
                                int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int length = lengths[row];
  float sum = 0.0f;
  for (int i = 0; i < length; ++i) sum += values[row * width + i] * x[columns[row * width + i]];
  y[row] = sum;
}
