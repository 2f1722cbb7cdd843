// y = A x for a sparse matrix with rows of different length, stored with a fixed width per row (ELLPACK); one wavefront per row.
#include <hip/hip_runtime.h>

extern "C" __global__ void spmv(const float* values, const int* columns, const int* lengths, const float* x, float* y, int rows,
                                int width) {
  int lane = threadIdx.x % 64;
  int row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  int length = lengths[row];
  size_t base = (size_t)row * width;
  float sum = 0.0f;
  for (int i = lane; i < length; i += 64) sum += values[base + i] * x[columns[base + i]];
  for (int distance = 32; distance > 0; distance >>= 1) sum += __shfl_down(sum, distance);
  if (lane == 0) y[row] = sum;
}
