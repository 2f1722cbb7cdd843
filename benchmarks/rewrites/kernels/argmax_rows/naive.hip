#include <hip/hip_runtime.h>

extern "C" __global__ void argmax_rows(const float* input, int* position, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float best = -INFINITY;
  int where = 0;
  for (int i = 0; i < cols; ++i) {
    float value = input[row * cols + i];
    if (value > best) {
      best = value;
      where = i;
    }
  }
  position[row] = where;
}
