#include <hip/hip_runtime.h>

extern "C" __global__ void scan_rows(const float* input, float* output, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < cols; ++i) {
    sum += input[row * cols + i];
    output[row * cols + i] = sum;
  }
}
