#include <hip/hip_runtime.h>

extern "C" __global__ void gemm_batched(const float* a, const float* b, float* c, int m, int n, int k) {
  int item = blockIdx.z;
  int row = blockIdx.y * 16 + threadIdx.y;
  int col = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || col >= n) return;
  const float* left = a + (size_t)item * m * k;
  const float* right = b + (size_t)item * k * n;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += left[row * k + i] * right[i * n + col];
  c[(size_t)item * m * n + row * n + col] = sum;
}
