// Variants of one matrix product in f32, C (m x n) = A (m x k) B (k x n), all row-major unless a name says otherwise.
// Leading dimensions are separate from the size, so that a shorter product keeps the strides of a longer one.
#include <hip/hip_runtime.h>
#define GEMM(name) extern "C" __global__ void name(const float* __restrict__ a, const float* __restrict__ b, \
                                                   float* __restrict__ c, int k, int lda, int ldb, int ldc)
#define GEMM256(name) extern "C" __global__ __launch_bounds__(256) void name( \
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k, int lda, int ldb, int ldc)

// One output per work-item; adjacent lanes are adjacent rows, so A and C are accessed with a stride and B is uniform.
GEMM(naive_lanes_in_rows) {
  const int row = blockIdx.y * blockDim.x + threadIdx.x, col = blockIdx.x * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[(size_t)row * lda + i] * b[(size_t)i * ldb + col];
  c[(size_t)row * ldc + col] = sum;
}
// One output per work-item; adjacent lanes are adjacent columns, so B and C are coalesced and A is uniform per row.
GEMM(naive_lanes_in_columns) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[(size_t)row * lda + i] * b[(size_t)i * ldb + col];
  c[(size_t)row * ldc + col] = sum;
}
// As above, but B is stored n x k: each lane walks along its own row of B.
GEMM(naive_b_transposed) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[(size_t)row * lda + i] * b[(size_t)col * ldb + i];
  c[(size_t)row * ldc + col] = sum;
}
// As above with loads of four floats.
GEMM(naive_b_transposed_float4) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; i += 4) {
    const float4 x = *(const float4*)&a[(size_t)row * lda + i], y = *(const float4*)&b[(size_t)col * ldb + i];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  c[(size_t)row * ldc + col] = sum;
}
// Four columns per work-item with loads of four floats, without LDS.
GEMM(naive_four_columns) {
  const int col = (blockIdx.x * blockDim.x + threadIdx.x) * 4, row = blockIdx.y * blockDim.y + threadIdx.y;
  float4 sum = {0, 0, 0, 0};
  for (int i = 0; i < k; i++) {
    const float x = a[(size_t)row * lda + i];
    const float4 y = *(const float4*)&b[(size_t)i * ldb + col];
    sum.x += x * y.x, sum.y += x * y.y, sum.z += x * y.z, sum.w += x * y.w;
  }
  *(float4*)&c[(size_t)row * ldc + col] = sum;
}

// One output per work-item from square tiles in LDS.
template <int TILE> __device__ void tiled(const float* a, const float* b, float* c, int k, int lda, int ldb, int ldc) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y;
  const size_t row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
  float sum = 0;
  for (int i = 0; i < k; i += TILE) {
    as[y][x] = a[row * lda + i + x];
    bs[y][x] = b[(size_t)(i + y) * ldb + col];
    __syncthreads();
    for (int j = 0; j < TILE; j++) sum += as[y][j] * bs[j][x];
    __syncthreads();
  }
  c[row * ldc + col] = sum;
}
GEMM(tile_16) { tiled<16>(a, b, c, k, lda, ldb, ldc); }
GEMM(tile_32) { tiled<32>(a, b, c, k, lda, ldb, ldc); }

// Tile of TM x TN outputs per work-item from tiles of BM x BN x BK in LDS; A is transposed in LDS. PAD floats are added to each
// row of A in LDS. B_TRANSPOSED: B is stored n x k and read along k.
template <int BM, int BN, int BK, int TM, int TN, int PAD, bool B_TRANSPOSED, bool VECTOR, bool DOUBLE>
__device__ void blocked(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k, int lda, int ldb,
                        int ldc) {
  constexpr int THREADS = BM * BN / TM / TN, BUFFERS = DOUBLE ? 2 : 1;
  __shared__ float as[BUFFERS][BK][BM + PAD], bs[BUFFERS][BK][BN + PAD];
  const int t = threadIdx.x, tx = t % (BN / TN), ty = t / (BN / TN);
  const size_t row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  float acc[TM][TN] = {};
  float ra[BM * BK / THREADS], rb[BN * BK / THREADS];
  constexpr int WIDTH = VECTOR ? 4 : 1;
  auto load = [&](int i) {
#pragma unroll
    for (int e = 0; e < BM * BK / THREADS; e += WIDTH) {
      const int at = (e / WIDTH * THREADS + t) * WIDTH, r = at / BK, s = at % BK;
      if (VECTOR) *(float4*)&ra[e] = *(const float4*)&a[(row0 + r) * lda + i + s];
      else ra[e] = a[(row0 + r) * lda + i + s];
    }
#pragma unroll
    for (int e = 0; e < BN * BK / THREADS; e += WIDTH) {
      const int at = (e / WIDTH * THREADS + t) * WIDTH;
      const int r = B_TRANSPOSED ? at / BK : at / BN, s = B_TRANSPOSED ? at % BK : at % BN;
      const float* from = B_TRANSPOSED ? &b[(col0 + r) * ldb + i + s] : &b[(size_t)(i + r) * ldb + col0 + s];
      if (VECTOR) *(float4*)&rb[e] = *(const float4*)from;
      else rb[e] = *from;
    }
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int e = 0; e < BM * BK / THREADS; e++) {
      const int at = (e / WIDTH * THREADS + t) * WIDTH + e % WIDTH;
      as[buffer][at % BK][at / BK] = ra[e];
    }
#pragma unroll
    for (int e = 0; e < BN * BK / THREADS; e += B_TRANSPOSED ? 1 : WIDTH) {
      const int at = (e / WIDTH * THREADS + t) * WIDTH + e % WIDTH;
      if (B_TRANSPOSED) bs[buffer][at % BK][at / BK] = rb[e];
      else if (VECTOR) *(float4*)&bs[buffer][at / BN][at % BN] = *(float4*)&rb[e];
      else bs[buffer][at / BN][at % BN] = rb[e];
    }
  };
  auto multiply = [&](int buffer) {
#pragma unroll
    for (int j = 0; j < BK; j++) {
      float x[TM], y[TN];
#pragma unroll
      for (int m = 0; m < TM; m++) x[m] = as[buffer][j][ty * TM + m];
#pragma unroll
      for (int n = 0; n < TN; n++) y[n] = bs[buffer][j][tx * TN + n];
#pragma unroll
      for (int m = 0; m < TM; m++)
#pragma unroll
        for (int n = 0; n < TN; n++) acc[m][n] += x[m] * y[n];
    }
  };
  if (DOUBLE) {
    load(0);
    store(0);
    __syncthreads();
    int buffer = 0;
    for (int i = BK; i < k; i += BK, buffer ^= 1) {
      load(i);
      multiply(buffer);
      store(buffer ^ 1);
      __syncthreads();
    }
    multiply(buffer);
  } else {
    for (int i = 0; i < k; i += BK) {
      load(i);
      store(0);
      __syncthreads();
      multiply(0);
      __syncthreads();
    }
  }
#pragma unroll
  for (int m = 0; m < TM; m++)
#pragma unroll
    for (int n = 0; n < TN; n++) c[(row0 + ty * TM + m) * ldc + col0 + tx * TN + n] = acc[m][n];
}
GEMM256(block_64_4x4) { blocked<64, 64, 16, 4, 4, 0, false, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_64_4x4_float4) { blocked<64, 64, 16, 4, 4, 0, false, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_64_4x4_padded) { blocked<64, 64, 16, 4, 4, 4, false, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_64_4x4_b_transposed) { blocked<64, 64, 16, 4, 4, 0, true, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_64_4x4_double) { blocked<64, 64, 16, 4, 4, 0, false, true, true>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_128_8x8) { blocked<128, 128, 8, 8, 8, 0, false, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_128_8x8_padded) { blocked<128, 128, 8, 8, 8, 4, false, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_128_8x8_double) { blocked<128, 128, 8, 8, 8, 0, false, true, true>(a, b, c, k, lda, ldb, ldc); }
GEMM256(block_128_8x8_b_transposed) { blocked<128, 128, 8, 8, 8, 0, true, true, false>(a, b, c, k, lda, ldb, ldc); }

// Blocks are renumbered so that neighbours run on the same one of XCDS dies, as blocks are distributed to them in turn.
#ifndef XCDS
#define XCDS 6
#endif
__device__ inline int renumbered(int block, int blocks) {
  const int die = block % XCDS, most = (blocks + XCDS - 1) / XCDS, rest = blocks % XCDS;
  return die * most + block / XCDS - (rest == 0 || die < rest ? 0 : die - rest);
}
GEMM(tile_32_renumbered) {
  __shared__ float as[32][32], bs[32][32];
  const int block = renumbered(blockIdx.x + blockIdx.y * gridDim.x, gridDim.x * gridDim.y);
  const int x = threadIdx.x, y = threadIdx.y;
  const size_t row = block / gridDim.x * 32 + y, col = block % gridDim.x * 32 + x;
  float sum = 0;
  for (int i = 0; i < k; i += 32) {
    as[y][x] = a[row * lda + i + x];
    bs[y][x] = b[(size_t)(i + y) * ldb + col];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 32; j++) sum += as[y][j] * bs[j][x];
    __syncthreads();
  }
  c[row * ldc + col] = sum;
}
// 8 x 8 outputs per work-item, 16 apart in rows and columns; A is not transposed in LDS, so it is read in single dwords.
GEMM256(block_128_spread_renumbered) {
  __shared__ float as[128][8], bs[8][128];
  const int block = renumbered(blockIdx.x + blockIdx.y * gridDim.x, gridDim.x * gridDim.y), t = threadIdx.x;
  const size_t row0 = block / gridDim.x * 128, col0 = block % gridDim.x * 128;
  const int x = t % 16, y = t / 16;
  float acc[8][8] = {};
  for (int i = 0; i < k; i += 8) {
    *(float4*)&as[t / 2][t % 2 * 4] = *(const float4*)&a[(row0 + t / 2) * lda + i + t % 2 * 4];
    *(float4*)&bs[t / 32][t % 32 * 4] = *(const float4*)&b[(size_t)(i + t / 32) * ldb + col0 + t % 32 * 4];
    __syncthreads();
    for (int j = 0; j < 8; j++) {
      float p[8], q[8];
      for (int e = 0; e < 8; e++) p[e] = as[y + e * 16][j], q[e] = bs[j][x + e * 16];
      for (int m = 0; m < 8; m++)
        for (int n = 0; n < 8; n++) acc[m][n] += p[m] * q[n];
    }
    __syncthreads();
  }
  for (int m = 0; m < 8; m++)
    for (int n = 0; n < 8; n++) c[(row0 + y + m * 16) * ldc + col0 + x + n * 16] = acc[m][n];
}
