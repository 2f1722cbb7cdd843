#include <hip/hip_runtime.h>

extern "C" __global__ void top2_rows(const float* input, float* output, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < cols; ++i) {
    float value = input[row * cols + i];
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  output[row * 2] = first;
  output[row * 2 + 1] = second;
}
