#include <hip/hip_runtime.h>

// C = A B in f32, row major. Each workgroup computes a tile of BM x BN through LDS, each work-item TM x TN of it.
#ifndef BM
#define BM 64
#define BN 64
#define BK 16
#define TM 4
#define TN 4
#endif

constexpr int THREADS_X = BN / TN;
constexpr int THREADS_Y = BM / TM;
constexpr int THREADS = THREADS_X * THREADS_Y;

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ float tile_a[BK][BM + 1];
  __shared__ float tile_b[BK][BN];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int item = ty * THREADS_X + tx;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  float sum[TM][TN] = {};
  for (int k0 = 0; k0 < k; k0 += BK) {
    for (int i = item; i < BM * BK; i += THREADS) {
      const int row = i / BK, kk = i % BK;
      tile_a[kk][row] = row0 + row < m && k0 + kk < k ? a[(row0 + row) * k + k0 + kk] : 0.0f;
    }
    for (int i = item; i < BK * BN; i += THREADS) {
      const int kk = i / BN, col = i % BN;
      tile_b[kk][col] = k0 + kk < k && col0 + col < n ? b[(k0 + kk) * n + col0 + col] : 0.0f;
    }
    __syncthreads();
    for (int kk = 0; kk < BK; kk++) {
      float left[TM], right[TN];
      for (int i = 0; i < TM; i++) left[i] = tile_a[kk][ty * TM + i];
      for (int j = 0; j < TN; j++) right[j] = tile_b[kk][tx * TN + j];
      for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) sum[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; i++)
    for (int j = 0; j < TN; j++) {
      const int row = row0 + ty * TM + i, col = col0 + tx * TN + j;
      if (row < m && col < n) c[row * n + col] = sum[i][j];
    }
}
