// Rows of a table by number; a negative number selects a row of zeros.
#include <hip/hip_runtime.h>

extern "C" __global__ void embedding(const float* table, const int* ids, float* output, int width) {
  int id = ids[blockIdx.x];
  float* row = output + (size_t)blockIdx.x * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    row[i] = id < 0 ? 0.0f : table[(size_t)id * width + i];
  }
}
