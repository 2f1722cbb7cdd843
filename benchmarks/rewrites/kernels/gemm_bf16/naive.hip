#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>

extern "C" __global__ void gemm(const __hip_bfloat16* a, const __hip_bfloat16* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * 16 + threadIdx.y;
  int col = blockIdx.x * 16 + threadIdx.x;
  if (row < m && col < n) {
    float sum = 0;
    for (int i = 0; i < k; i++) {
      sum += __bfloat162float(a[(size_t)row * k + i]) * __bfloat162float(b[(size_t)i * n + col]);
    }
    c[(size_t)row * n + col] = sum;
  }
}
