#include <hip/hip_runtime.h>

extern "C" __global__ void embedding(const float* table, const int* ids, float* output, int tokens, int width) {
  int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  int id = ids[token];
  for (int j = 0; j < width; ++j) output[token * width + j] = table[id * width + j];
}
