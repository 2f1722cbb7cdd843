// rocm-perf launch: {"grid": ["ceil_div(n, 32)", "ceil_div(m, 64)"], "block": [256]}
// Tiles of 64 x 32 through LDS; a wavefront computes 16 x 32 with matrix instructions.
#include <hip/hip_runtime.h>

typedef float f4 __attribute__((ext_vector_type(4)));

extern "C" __global__ __launch_bounds__(256) void gemm_nt(const float* __restrict__ a, const float* __restrict__ b,
                                                          const float* __restrict__ bias, float* __restrict__ c, int m, int n, int k) {
  __shared__ float as[64][33], bs[32][33];
  int t = threadIdx.x, lane = t % 64, wave = t / 64;
  int row0 = blockIdx.y * 64, col0 = blockIdx.x * 32;
  f4 sum[2] = {};
  float na[8], nb[4];
  auto load = [&](int k0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      int r = row0 + t / 32 + 8 * i, q = k0 + t % 32;
      na[i] = r < m && q < k ? a[(size_t)r * k + q] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = col0 + t / 32 + 8 * i, q = k0 + t % 32;
      nb[i] = r < n && q < k ? b[(size_t)r * k + q] : 0.0f;
    }
  };
  load(0);
  for (int k0 = 0; k0 < k; k0 += 32) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) as[t / 32 + 8 * i][t % 32] = na[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) bs[t / 32 + 8 * i][t % 32] = nb[i];
    __syncthreads();
    load(k0 + 32);
#pragma unroll
    for (int kk = 0; kk < 32; kk += 4) {
      float x = as[wave * 16 + lane % 16][kk + lane / 16];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        sum[j] = __builtin_amdgcn_mfma_f32_16x16x4f32(x, bs[16 * j + lane % 16][kk + lane / 16], sum[j], 0, 0, 0);
    }
  }
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int r = row0 + wave * 16 + lane / 16 * 4 + e, col = col0 + 16 * j + lane % 16;
      if (r < m && col < n) c[(size_t)r * n + col] = fmaxf(sum[j][e] + bias[col], 0.0f);
    }
}
