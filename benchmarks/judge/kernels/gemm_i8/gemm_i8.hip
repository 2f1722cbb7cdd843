// C = scale_a[i] * scale_b[j] * (A B^T) with 8-bit inputs, exact 32-bit sums and single-precision results.
#include <hip/hip_runtime.h>

extern "C" __global__ void gemm_i8(const signed char* a, const signed char* b, const float* scale_a, const float* scale_b, float* c,
                                   int m, int n, int k) {
  __shared__ signed char tile_a[16][17];
  __shared__ signed char tile_b[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  int b_row = blockIdx.x * 16 + y;
  int sum = 0;
  for (int base = 0; base < k; base += 16) {
    bool inside = base + x < k;
    tile_a[y][x] = row < m && inside ? a[(size_t)row * k + base + x] : 0;
    tile_b[y][x] = b_row < n && inside ? b[(size_t)b_row * k + base + x] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += (int)tile_a[y][i] * (int)tile_b[x][i];
    __syncthreads();
  }
  if (row < m && col < n) c[(size_t)row * n + col] = (float)sum * scale_a[row] * scale_b[col];
}
