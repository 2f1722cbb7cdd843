// rocm-perf launch: {"grid": ["ceil_div(n, 64)", "ceil_div(m, 64)"], "block": [256]}
// Tiles of 64 x 64 through LDS; a wavefront computes 32 x 32 of them with four matrix instructions of 16 x 16.
#include <hip/hip_runtime.h>

typedef float f4 __attribute__((ext_vector_type(4)));

extern "C" __global__ __launch_bounds__(256) void gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                                       int m, int n, int k) {
  __shared__ float as[16][68], bs[16][68];
  int t = threadIdx.x, lane = t % 64, wave = t / 64;
  int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  int wr = wave / 2 * 32, wc = wave % 2 * 32;
  f4 sum[2][2] = {};
  int ar = t / 16, ak = t % 16, bk = t / 64, bc = t % 64;
  float na[4], nb[4];
  auto load = [&](int k0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = row0 + ar + 16 * i, kk = k0 + ak;
      na[i] = r < m && kk < k ? a[(size_t)r * k + kk] : 0.0f;
      int q = k0 + bk + 4 * i, col = col0 + bc;
      nb[i] = q < k && col < n ? b[(size_t)q * n + col] : 0.0f;
    }
  };
  load(0);
  for (int k0 = 0; k0 < k; k0 += 16) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      as[ak][ar + 16 * i] = na[i];
      bs[bk + 4 * i][bc] = nb[i];
    }
    __syncthreads();
    load(k0 + 16);
#pragma unroll
    for (int kk = 0; kk < 16; kk += 4) {
      int q = kk + lane / 16;
      float x[2] = {as[q][wr + lane % 16], as[q][wr + 16 + lane % 16]};
      float y[2] = {bs[q][wc + lane % 16], bs[q][wc + 16 + lane % 16]};
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) sum[i][j] = __builtin_amdgcn_mfma_f32_16x16x4f32(x[i], y[j], sum[i][j], 0, 0, 0);
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
