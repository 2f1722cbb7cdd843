// Variants of one matrix product on the matrix cores, f16 to f32, C (m x n) = A (m x k) B. B is k x n, or n x k if a name ends
// with _bt. Leading dimensions are separate from the size.
#include <hip/hip_runtime.h>
typedef _Float16 half_t;
typedef half_t half4 __attribute__((ext_vector_type(4)));
typedef half_t half8 __attribute__((ext_vector_type(8)));
typedef float float4_t __attribute__((ext_vector_type(4)));
typedef float float16_t __attribute__((ext_vector_type(16)));
#define GEMM(name, waves) extern "C" __global__ __launch_bounds__(64 * waves) void name( \
    const half_t* __restrict__ a, const half_t* __restrict__ b, half_t* __restrict__ c, int k, int lda, int ldb, int ldc)

// One wavefront computes 32 x 32 without LDS. Each lane loads four f16 of a row of A; of B four rows, as single f16.
GEMM(direct_32, 4) {
  const int lane = threadIdx.x % 64, wave = threadIdx.x / 64, r = lane % 32, h = lane / 32;
  const size_t row0 = blockIdx.y * 64 + wave / 2 * 32, col0 = blockIdx.x * 64 + wave % 2 * 32;
  float16_t acc = {};
  for (int i = 0; i < k; i += 8) {
    const half4 x = *(const half4*)&a[(row0 + r) * lda + i + h * 4];
    half4 y;
    for (int e = 0; e < 4; e++) y[e] = b[(size_t)(i + h * 4 + e) * ldb + col0 + r];
    acc = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, acc, 0, 0, 0);
  }
  for (int e = 0; e < 16; e++) c[(row0 + e / 4 * 8 + h * 4 + e % 4) * ldc + col0 + r] = acc[e];
}
// As direct_32 with B n x k: four f16 at once, from 32 rows of B.
GEMM(direct_32_bt, 4) {
  const int lane = threadIdx.x % 64, wave = threadIdx.x / 64, r = lane % 32, h = lane / 32;
  const size_t row0 = blockIdx.y * 64 + wave / 2 * 32, col0 = blockIdx.x * 64 + wave % 2 * 32;
  float16_t acc = {};
  for (int i = 0; i < k; i += 8) {
    const half4 x = *(const half4*)&a[(row0 + r) * lda + i + h * 4];
    const half4 y = *(const half4*)&b[(col0 + r) * ldb + i + h * 4];
    acc = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, acc, 0, 0, 0);
  }
  for (int e = 0; e < 16; e++) c[(row0 + e / 4 * 8 + h * 4 + e % 4) * ldc + col0 + r] = acc[e];
}
// 64 x 64 x 16 per workgroup and step through LDS, all global accesses single 16-bit values.
GEMM(ushort_64, 4) {
  __shared__ half_t as[64][16], bs[64][16];
  const int t = threadIdx.x, lane = t % 64, wave = t / 64, r = lane % 32, h = lane / 32;
  const size_t row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  a += (size_t)blockIdx.z * gridDim.y * 64 * lda;
  b += (size_t)blockIdx.z * k * ldb;
  c += (size_t)blockIdx.z * gridDim.y * 64 * ldc;
  float16_t acc = {};
  for (int i = 0; i < k; i += 16) {
    half_t x[4], y[4];
    for (int e = 0; e < 4; e++) {
      x[e] = a[(row0 + wave % 2 * 32 + r) * lda + i + wave / 2 * 8 + e * 2 + h];
      y[e] = b[(size_t)(i + wave / 2 * 8 + e * 2 + h) * ldb + col0 + wave % 2 * 32 + r];
    }
    __syncthreads();
    for (int e = 0; e < 4; e++) {
      as[wave % 2 * 32 + r][wave / 2 * 8 + e * 2 + h] = x[e];
      bs[wave % 2 * 32 + r][wave / 2 * 8 + e * 2 + h] = y[e];
    }
    __syncthreads();
    for (int s = 0; s < 16; s += 8) {
      const half4 p = *(const half4*)&as[wave / 2 * 32 + r][s + h * 4], q = *(const half4*)&bs[wave % 2 * 32 + r][s + h * 4];
      acc = __builtin_amdgcn_mfma_f32_32x32x8f16(p, q, acc, 0, 0, 0);
    }
  }
  const size_t top = row0 + wave / 2 * 32, left = col0 + wave % 2 * 32;
  for (int e = 0; e < 16; e++) c[(top + e / 4 * 8 + h * 4 + e % 4) * ldc + left + r] = (half_t)acc[e];
}

// BM x BN x BK per workgroup and step through LDS; each of WM x WN wavefronts computes BM / WM x BN / WN with 16x16x16. PAD f16
// are added to each row in LDS. B is n x k unless B_ROWS, in which case lanes store it transposed.
template <int BM, int BN, int BK, int WM, int WN, int PAD, bool DOUBLE, bool B_ROWS>
__device__ void staged(const half_t* __restrict__ a, const half_t* __restrict__ b, half_t* __restrict__ c, int k, int lda, int ldb,
                       int ldc) {
  constexpr int THREADS = WM * WN * 64, BUFFERS = DOUBLE ? 2 : 1, TM = BM / WM / 16, TN = BN / WN / 16;
  constexpr int LA = BM * BK / 8 / THREADS, LB = BN * BK / 8 / THREADS;
  __shared__ half_t as[BUFFERS][BM][BK + PAD], bs[BUFFERS][BN][BK + PAD];
  const int t = threadIdx.x, lane = t % 64, wave = t / 64, r = lane % 16, q = lane / 16;
  const int top = wave / WN * (BM / WM), left = wave % WN * (BN / WN);
  const size_t row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  float4_t acc[TM][TN] = {};
  half8 ra[LA], rb[LB];
  auto load = [&](int i) {
#pragma unroll
    for (int e = 0; e < LA; e++) {
      const int at = (e * THREADS + t) * 8;
      ra[e] = *(const half8*)&a[(row0 + at / BK) * lda + i + at % BK];
    }
#pragma unroll
    for (int e = 0; e < LB; e++) {
      const int at = (e * THREADS + t) * 8;
      rb[e] = B_ROWS ? *(const half8*)&b[(size_t)(i + at / BN) * ldb + col0 + at % BN]
                     : *(const half8*)&b[(col0 + at / BK) * ldb + i + at % BK];
    }
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int e = 0; e < LA; e++) {
      const int at = (e * THREADS + t) * 8;
      *(half8*)&as[buffer][at / BK][at % BK] = ra[e];
    }
#pragma unroll
    for (int e = 0; e < LB; e++) {
      const int at = (e * THREADS + t) * 8;
      if (B_ROWS)
        for (int f = 0; f < 8; f++) bs[buffer][at % BN + f][at / BN] = rb[e][f];
      else *(half8*)&bs[buffer][at / BK][at % BK] = rb[e];
    }
  };
  auto multiply = [&](int buffer) {
#pragma unroll
    for (int j = 0; j < BK; j += 16) {
      half4 x[TM], y[TN];
#pragma unroll
      for (int m = 0; m < TM; m++) x[m] = *(const half4*)&as[buffer][top + m * 16 + r][j + q * 4];
#pragma unroll
      for (int n = 0; n < TN; n++) y[n] = *(const half4*)&bs[buffer][left + n * 16 + r][j + q * 4];
#pragma unroll
      for (int m = 0; m < TM; m++)
#pragma unroll
        for (int n = 0; n < TN; n++) acc[m][n] = __builtin_amdgcn_mfma_f32_16x16x16f16(x[m], y[n], acc[m][n], 0, 0, 0);
    }
  };
  load(0);
  store(0);
  __syncthreads();
  int buffer = 0;
  for (int i = BK; i < k; i += BK) {
    load(i);
    multiply(buffer);
    if (!DOUBLE) __syncthreads();
    else buffer ^= 1;
    store(buffer);
    __syncthreads();
  }
  multiply(buffer);
#pragma unroll
  for (int m = 0; m < TM; m++)
#pragma unroll
    for (int n = 0; n < TN; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        c[(row0 + top + m * 16 + q * 4 + e) * ldc + col0 + left + n * 16 + r] = (half_t)acc[m][n][e];
}
GEMM(staged_64_bt, 4) { staged<64, 64, 32, 2, 2, 0, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_64_padded_bt, 4) { staged<64, 64, 32, 2, 2, 4, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_64, 4) { staged<64, 64, 32, 2, 2, 0, false, true>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_64_double_bt, 4) { staged<64, 64, 32, 2, 2, 4, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_64_deep_bt, 4) { staged<64, 64, 64, 2, 2, 4, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128_bt, 4) { staged<128, 128, 32, 2, 2, 0, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128_padded_bt, 4) { staged<128, 128, 32, 2, 2, 4, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128_double_bt, 4) { staged<128, 128, 32, 2, 2, 4, true, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128, 4) { staged<128, 128, 32, 2, 2, 0, false, true>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128_tall_bt, 4) { staged<128, 128, 32, 4, 1, 4, false, false>(a, b, c, k, lda, ldb, ldc); }
GEMM(staged_128_8waves_bt, 8) { staged<128, 128, 32, 4, 2, 4, false, false>(a, b, c, k, lda, ldb, ldc); }
