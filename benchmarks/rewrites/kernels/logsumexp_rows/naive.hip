#include <hip/hip_runtime.h>

extern "C" __global__ void logsumexp(const float* logits, const int* labels, float* loss, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* line = logits + (size_t)row * cols;
  float largest = -INFINITY, sum = 0.0f;
  for (int i = 0; i < cols; i++) largest = fmaxf(largest, line[i]);
  for (int i = 0; i < cols; i++) sum += expf(line[i] - largest);
  loss[row] = logf(sum) + largest - line[labels[row]];
}
