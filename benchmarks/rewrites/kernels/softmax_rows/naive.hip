#include <hip/hip_runtime.h>

extern "C" __global__ void softmax_rows(const float* input, float* output, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float largest = -INFINITY;
    for (int i = 0; i < cols; i++) largest = fmaxf(largest, input[row * cols + i]);
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += expf(input[row * cols + i] - largest);
    for (int i = 0; i < cols; i++) output[row * cols + i] = expf(input[row * cols + i] - largest) / sum;
  }
}
