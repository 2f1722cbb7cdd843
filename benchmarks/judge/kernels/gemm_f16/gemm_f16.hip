// C = A B^T with half-precision inputs and single-precision sums and results; a wavefront computes one 32 x 2 part of a tile.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#define TILE 32
#define DEPTH 32

extern "C" __global__ void gemm_f16(const __half* a, const __half* b, float* c, int m, int n, int k) {
  __shared__ __half tile_a[TILE][DEPTH + 2];
  __shared__ __half tile_b[TILE][DEPTH + 2];
  int t = threadIdx.x;
  int col = t % TILE, row = t / TILE;  // 256 work-items: 8 rows at once
  int row_base = blockIdx.y * TILE, col_base = blockIdx.x * TILE;
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int base = 0; base < k; base += DEPTH) {
    for (int i = t; i < TILE * DEPTH; i += 256) {
      int y = i / DEPTH, x = i % DEPTH;
      bool in_depth = base + x < k;
      tile_a[y][x] = row_base + y < m && in_depth ? a[(size_t)(row_base + y) * k + base + x] : __float2half(0.0f);
      tile_b[y][x] = col_base + y < n && in_depth ? b[(size_t)(col_base + y) * k + base + x] : __float2half(0.0f);
    }
    __syncthreads();
    for (int i = 0; i < DEPTH; ++i) {
      float right = __half2float(tile_b[col][i]);
      for (int part = 0; part < 4; ++part) sums[part] += __half2float(tile_a[row + part * 8][i]) * right;
    }
    __syncthreads();
  }
  for (int part = 0; part < 4; ++part) {
    int y = row_base + row + part * 8;
    if (y < m && col_base + col < n) c[(size_t)y * n + col_base + col] = sums[part];
  }
}
