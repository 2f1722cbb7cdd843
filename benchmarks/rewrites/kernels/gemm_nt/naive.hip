#include <hip/hip_runtime.h>

// A linear layer with ReLU: both operands are contiguous in k.
extern "C" __global__ void gemm_nt(const float* a, const float* b, const float* bias, float* c, int m, int n, int k) {
  const int col = threadIdx.x + blockIdx.x * blockDim.x;
  const int row = threadIdx.y + blockIdx.y * blockDim.y;
  if (row >= m || col >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += a[row * k + i] * b[col * k + i];
  }
  c[row * n + col] = fmaxf(sum + bias[col], 0.0f);
}
