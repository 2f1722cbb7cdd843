#include <hip/hip_runtime.h>

extern "C" __global__ void gemm(const signed char* a, const signed char* b, int* c, int m, int n, int k) {
  int row = blockIdx.y * 16 + threadIdx.y;
  int col = blockIdx.x * 16 + threadIdx.x;
  if (row < m && col < n) {
    int sum = 0;
    for (int i = 0; i < k; i++) {
      sum += (int)a[(size_t)row * k + i] * (int)b[(size_t)i * n + col];
    }
    c[(size_t)row * n + col] = sum;
  }
}
