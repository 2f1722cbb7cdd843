// Many products of 8 x 8 matrices: one wavefront per product, one element per work-item.
#include <hip/hip_runtime.h>

extern "C" __global__ void batched_gemm(const float* a, const float* b, float* c, int batch) {
  size_t item = (size_t)blockIdx.x * 4 + threadIdx.x / 64;
  if (item >= (size_t)batch) return;
  int row = threadIdx.x % 64 / 8, col = threadIdx.x % 8;
  const float* left = a + item * 64 + row * 8;
  const float* right = b + item * 64 + col;
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += left[i] * right[i * 8];
  c[item * 64 + row * 8 + col] = sum;
}
