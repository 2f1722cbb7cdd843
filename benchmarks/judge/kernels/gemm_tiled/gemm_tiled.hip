// C = alpha A B + beta C in single precision, with square tiles in LDS. C is not read if beta is zero.
#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void gemm_tiled(const float* a, const float* b, float* c, float alpha, float beta, int m, int n, int k) {
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty;
  int col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int base = 0; base < k; base += TILE) {
    tile_a[ty][tx] = row < m && base + tx < k ? a[(size_t)row * k + base + tx] : 0.0f;
    tile_b[ty][tx] = base + ty < k && col < n ? b[(size_t)(base + ty) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += tile_a[ty][i] * tile_b[i][tx];
    __syncthreads();
  }
  if (row < m && col < n) {
    size_t place = (size_t)row * n + col;
    c[place] = beta == 0.0f ? alpha * sum : alpha * sum + beta * c[place];
  }
}
