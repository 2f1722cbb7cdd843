#include <hip/hip_runtime.h>

extern "C" __global__ void transpose(const float* input, float* output, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) output[(size_t)x * rows + y] = input[(size_t)y * cols + x];
}
