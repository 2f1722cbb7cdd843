#include <hip/hip_runtime.h>

// C = A B in f32, row major. Each workgroup computes a tile of BLOCK_M x BLOCK_N through LDS, each work-item TM x TN of it.
#ifndef BLOCK_M
#define BLOCK_M 64
#define BLOCK_N 64
#define BLOCK_K 16
#define GROUP_M 1
#define NUM_WARPS 4
#define NUM_STAGES 1
#endif

// The factor of n nearest to its square root, from above.
constexpr int side(int n) {
  int factor = 1;
  while (factor * factor < n || n % factor) factor++;
  return factor;
}

constexpr int THREADS = 64 * NUM_WARPS;
static_assert(BLOCK_M * BLOCK_N % THREADS == 0, "every work-item owns at least one element of C, all of them equally many");
constexpr int TN = side(BLOCK_M * BLOCK_N / THREADS);
constexpr int TM = BLOCK_M * BLOCK_N / THREADS / TN;
static_assert(BLOCK_M % TM == 0 && BLOCK_N % TN == 0, "the elements of a work-item form a block");
constexpr int THREADS_X = BLOCK_N / TN;

using TileA = float[BLOCK_K][BLOCK_M + 1];
using TileB = float[BLOCK_K][BLOCK_N];

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ TileA tiles_a[NUM_STAGES];
  __shared__ TileB tiles_b[NUM_STAGES];
  const int item = threadIdx.x, tx = item % THREADS_X, ty = item / THREADS_X;

  // Workgroups that run at the same time share tiles of B: GROUP_M rows of tiles at once.
  const int tiles_m = (m + BLOCK_M - 1) / BLOCK_M, tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
  const int group = blockIdx.x / (GROUP_M * tiles_n), in_group = blockIdx.x % (GROUP_M * tiles_n);
  const int rows_of_group = min(tiles_m - group * GROUP_M, GROUP_M);
  const int row0 = (group * GROUP_M + in_group % rows_of_group) * BLOCK_M, col0 = in_group / rows_of_group * BLOCK_N;

  auto load = [&](TileA& tile_a, TileB& tile_b, int k0) {
    for (int i = item; i < BLOCK_M * BLOCK_K; i += THREADS) {
      const int row = i / BLOCK_K, kk = i % BLOCK_K;
      tile_a[kk][row] = row0 + row < m && k0 + kk < k ? a[(row0 + row) * k + k0 + kk] : 0.0f;
    }
    for (int i = item; i < BLOCK_K * BLOCK_N; i += THREADS) {
      const int kk = i / BLOCK_N, col = i % BLOCK_N;
      tile_b[kk][col] = k0 + kk < k && col0 + col < n ? b[(k0 + kk) * n + col0 + col] : 0.0f;
    }
  };

  float sum[TM][TN] = {};
  auto multiply = [&](const TileA& tile_a, const TileB& tile_b) {
    for (int kk = 0; kk < BLOCK_K; kk++) {
      float left[TM], right[TN];
      for (int i = 0; i < TM; i++) left[i] = tile_a[kk][ty * TM + i];
      for (int j = 0; j < TN; j++) right[j] = tile_b[kk][tx * TN + j];
      for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) sum[i][j] += left[i] * right[j];
    }
  };

  // With several stages the tiles of later steps are on their way while the present one is multiplied.
  constexpr int AHEAD = NUM_STAGES - 1;
  for (int step = 0; step < AHEAD; step++) load(tiles_a[step], tiles_b[step], step * BLOCK_K);
  for (int step = 0; step * BLOCK_K < k; step++) {
    const int next = (step + AHEAD) % NUM_STAGES, now = step % NUM_STAGES;
    if (NUM_STAGES > 1) __syncthreads();
    load(tiles_a[next], tiles_b[next], (step + AHEAD) * BLOCK_K);
    if (NUM_STAGES == 1) __syncthreads();
    multiply(tiles_a[now], tiles_b[now]);
    if (NUM_STAGES == 1) __syncthreads();
  }

  for (int i = 0; i < TM; i++)
    for (int j = 0; j < TN; j++) {
      const int row = row0 + ty * TM + i, col = col0 + tx * TN + j;
      if (row < m && col < n) c[row * n + col] = sum[i][j];
    }
}
