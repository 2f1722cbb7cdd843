// C = A B, one work-item per element of C, which it sums up in memory: correct, and as slow as it looks.
#include <hip/hip_runtime.h>

extern "C" __global__ void gemm_naive(const float* a, const float* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || col >= n) return;
  c[row * n + col] = 0.0f;
  for (int i = 0; i < k; ++i) {
    c[row * n + col] += a[row * k + i] * b[i * n + col];
  }
}
