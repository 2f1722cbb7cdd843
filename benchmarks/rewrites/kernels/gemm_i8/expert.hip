// rocm-perf launch: {"grid": ["ceil_div(n, 64)", "ceil_div(m, 64)"], "block": [256]}
#include <hip/hip_runtime.h>

typedef signed char vx __attribute__((ext_vector_type(8)));
typedef int acc4 __attribute__((ext_vector_type(4)));

// Tiles of 64 x 64 through LDS, both with k innermost; a wavefront computes 32 x 32 with matrix instructions.
extern "C" __global__ __launch_bounds__(256) void gemm(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ c,
                                                       int m, int n, int k) {
  constexpr int KT = 64;
  const signed char* av = (const signed char*)a;
  const signed char* bv = (const signed char*)b;
  __shared__ __attribute__((aligned(16))) signed char as[64][KT + 8], bs[64][KT + 8];
  int t = threadIdx.x, lane = t % 64, wave = t / 64;
  int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  int wr = wave / 2 * 32, wc = wave % 2 * 32;
  acc4 sum[2][2] = {};
  constexpr int PER = 64 * KT / 256;
  signed char na[PER], nb[PER];
  auto load = [&](int k0) {
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      int e = t + 256 * i, r = row0 + e / KT, kk = k0 + e % KT;
      na[i] = r < m && kk < k ? av[(size_t)r * k + kk] : (signed char)0;
      int q = k0 + e / 64, col = col0 + e % 64;
      nb[i] = q < k && col < n ? bv[(size_t)q * n + col] : (signed char)0;
    }
  };
  load(0);
  for (int k0 = 0; k0 < k; k0 += KT) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      int e = t + 256 * i;
      as[e / KT][e % KT] = na[i];
      bs[e % 64][e / 64] = nb[i];
    }
    __syncthreads();
    load(k0 + KT);
#pragma unroll
    for (int kk = 0; kk < KT; kk += 32) {
      int q = kk + lane / 16 * 8;
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          sum[i][j] = __builtin_amdgcn_mfma_i32_16x16x32_i8(*(const long*)&as[wr + 16 * i + lane % 16][q], *(const long*)&bs[wc + 16 * j + lane % 16][q], sum[i][j], 0, 0, 0);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int r = row0 + wr + 16 * i + lane / 16 * 4 + e, col = col0 + wc + 16 * j + lane % 16;
        if (r < m && col < n) c[(size_t)r * n + col] = sum[i][j][e];
      }
}
