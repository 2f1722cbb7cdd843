// Linear algebra and networks: products, factorisations, layers, layouts.
#include <hip/hip_runtime.h>

using double4v = double __attribute__((ext_vector_type(4)));
using half4v = _Float16 __attribute__((ext_vector_type(4)));
using float16v = float __attribute__((ext_vector_type(16)));
using short4v = short __attribute__((ext_vector_type(4)));

// Products in double precision of rows with all shifts of a panel in LDS; 16 rows per wavefront stay in registers.
extern "C" __global__ void __launch_bounds__(256) dgemm_shifts(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ sums, int shifts) {
  __shared__ double panel[64][64];
  const int t = threadIdx.x, lane = t & 63, wave = t >> 6, column = lane & 15, group = lane >> 4;
  double mine[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) mine[k] = a[((size_t)blockIdx.x * 64 + wave * 16 + column) * 64 + k * 4 + group];
#pragma unroll
  for (int k = 0; k < 16; ++k) panel[k * 4 + wave][lane] = b[(k * 4 + wave) * 64 + lane];
  __syncthreads();
  double4v c[4] = {};
  for (int shift = 0; shift < shifts; ++shift) {
    const int first = column + shift * 3;
#pragma unroll
    for (int k = 0; k < 16; ++k)
#pragma unroll
      for (int n = 0; n < 4; ++n) c[n] = __builtin_amdgcn_mfma_f64_16x16x4f64(mine[k], panel[k * 4 + group][(first + n * 16) & 63], c[n], 0, 0, 0);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) sums[((size_t)blockIdx.x * 4 + j) * 256 + t] = c[0][j] + c[1][j] + c[2][j] + c[3][j];
}

// Scores of queries against a bank of filters that stays in LDS; bfloat16, 64 queries per wavefront and round.
extern "C" __global__ void __launch_bounds__(256) filter_bank(const short4v* __restrict__ queries, const short4v* __restrict__ bank, float* __restrict__ out, int rounds) {
  __shared__ short4v filters[16][129];
  const int t = threadIdx.x, lane = t & 63, column = lane & 31, half = lane >> 5;
  for (int k = t; k < 2048; k += 256) filters[k & 15][k >> 4] = bank[k];
  short4v q[2][8];
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int k = 0; k < 8; ++k) q[m][k] = queries[(((size_t)blockIdx.x * 8 + (t >> 6) * 2 + m) * 32 + column) * 16 + k * 2 + half];
  __syncthreads();
  float16v sum[2] = {};
  for (int r = 0; r < rounds; ++r) {
    const int first = (r & 3) * 32;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const short4v f = filters[k * 2 + half][first + column];
      sum[0] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(q[0][k], f, sum[0], 0, 0, 0);
      sum[1] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(q[1][k], f, sum[1], 0, 0, 0);
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) out[(size_t)blockIdx.x * 4096 + i * 256 + t] = sum[0][i] + sum[1][i];
}

// Powers of a rotation of 32 dimensions: the accumulators of a product are an operand of the next one.
extern "C" __global__ void __launch_bounds__(256) rotate_repeatedly(const half4v* __restrict__ rotation, float* __restrict__ out, int steps) {
  const int t = threadIdx.x, lane = t & 63;
  half4v r[4], x[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) r[k] = x[k] = rotation[k * 64 + lane];
  float16v c = {};
  for (int s = 0; s < steps; ++s) {
    c = float16v{};
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(r[s & 3 ? 0 : 1], x[0], c, 0, 0, 0);
    half4v y;
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] = (_Float16)(c[j] * 0.25f);
    x[0] = y;
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) out[((size_t)blockIdx.x * 16 + i) * 256 + t] = c[i];
}

// Every workgroup compares its vector with a dictionary of 512 KiB and starts at another place.
extern "C" __global__ void __launch_bounds__(256) scan_dictionary(const uint4* __restrict__ dictionary, unsigned* __restrict__ out, int rows, uint4 query) {
  const int t = threadIdx.x;
  unsigned best = 0;
  const int first = blockIdx.x * 37;
#pragma unroll 8
  for (int r = 0; r < rows; ++r) {
    const uint4 v = dictionary[((first + r * 5) & 127) * 256 + t];
    best = max(best, (v.x ^ query.x) + (v.y ^ query.y) + (v.z ^ query.z) + (v.w ^ query.w));
  }
  out[(size_t)blockIdx.x * 256 + t] = best;
}

// Partial products of codes: tables of 16 KiB, read by all wavefronts in rows of 1 KiB.
extern "C" __global__ void __launch_bounds__(256) sum_tables(const float4* __restrict__ tables, const int* __restrict__ codes, float4* __restrict__ out, int count) {
  const int lane = threadIdx.x & 63, wave = __builtin_amdgcn_readfirstlane((blockIdx.x * 256 + threadIdx.x) >> 6);
  float4 s = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 8
  for (int k = 0; k < count; ++k) {
    const float4 v = tables[((wave * 3 + k * 5) & 15) * 64 + lane];
    s.x += v.x;
    s.y += v.y;
    s.z += v.z;
    s.w += v.w;
  }
  s.x += codes[wave & 255];
  out[(size_t)wave * 64 + lane] = s;
}

// Residual connection of a layer: y = x + a * r.
extern "C" __global__ void __launch_bounds__(256) add_residual(const float4* __restrict__ x, const float4* __restrict__ r, float4* __restrict__ y, float a) {
  const size_t base = (size_t)blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float4 u = x[base + k * 256], v = r[base + k * 256];
    y[base + k * 256] = make_float4(u.x + a * v.x, u.y + a * v.y, u.z + a * v.z, u.w + a * v.w);
  }
}

// Product as a beginner writes it: work-items of a wavefront take the rows of A.
extern "C" __global__ void __launch_bounds__(256) gemm_by_rows(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int k, int n) {
  const int row = blockIdx.x * 256 + threadIdx.x, column = blockIdx.y;
  float sum = 0.f;
  for (int i = 0; i < k; ++i) sum = fmaf(a[(size_t)row * k + i], b[i * n + column], sum);
  c[(size_t)row * n + column] = sum;
}

// Repeated Cholesky factors of a shifted 15 x 15 matrix per work-item in registers, built for eight wavefronts per SIMD.
extern "C" __global__ void __launch_bounds__(256) __attribute__((amdgpu_waves_per_eu(8, 8))) cholesky_15(const float* __restrict__ in, float* __restrict__ out, int times) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)gridDim.x * 256;
  float m[120];
#pragma unroll
  for (int k = 0; k < 120; ++k) m[k] = in[k * n + i];
  for (int round = 0; round < times; ++round) {
#pragma unroll
    for (int j = 0; j < 15; ++j) {
#pragma unroll
      for (int r = 0; r < 15; ++r) {
        if (r < j) continue;
        float s = m[r * (r + 1) / 2 + j];
#pragma unroll
        for (int k = 0; k < 15; ++k)
          if (k < j) s -= m[r * (r + 1) / 2 + k] * m[j * (j + 1) / 2 + k];
        m[r * (r + 1) / 2 + j] = r == j ? __builtin_amdgcn_sqrtf(fabsf(s)) : s * __builtin_amdgcn_rcpf(m[j * (j + 1) / 2 + j]);
      }
    }
#pragma unroll
    for (int j = 0; j < 15; ++j) m[j * (j + 1) / 2 + j] += 1.f;
  }
#pragma unroll
  for (int k = 0; k < 120; ++k) out[k * n + i] = m[k];
}

// Weights of 232 columns in registers; a wavefront follows a chain of rows in L2.
extern "C" __global__ void __launch_bounds__(256) sequential_experts(const unsigned* __restrict__ routes, const float* __restrict__ weights, float* __restrict__ out, int tokens, unsigned mask) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) >> 6;
  float w[232];
#pragma unroll
  for (int k = 0; k < 232; ++k) w[k] = weights[k * 64 + lane];
  unsigned expert = (unsigned)wave * 48271u & mask;
  float h = 0.f;
  for (int t = 0; t < tokens; ++t) {
    const unsigned v = routes[expert * 32 + (lane & 31)];
    h += (float)(v & 255u);
    expert = __builtin_amdgcn_readlane(v, t & 31) & mask;
  }
  float y = 0.f;
#pragma unroll
  for (int k = 0; k < 232; ++k) y = fmaf(y, h * 1e-6f, w[k]);
  out[wave * 64 + lane] = y;
}

// Initialise an embedding: hashes first, all 32 values of a work-item are stored at the end.
extern "C" __global__ void __launch_bounds__(1024) initialise_embedding(float* __restrict__ table, unsigned seed) {
  const unsigned i = blockIdx.x * 1024 + threadIdx.x, n = gridDim.x * 1024;
  unsigned v[32], h = i * 2654435761u + seed;
#pragma unroll
  for (int k = 0; k < 32; ++k) {
#pragma unroll
    for (int r = 0; r < 6; ++r) h = (h >> 5 ^ h) * 747796405u + (h << 7) + k;
    v[k] = h;
  }
#pragma unroll
  for (int k = 0; k < 32; ++k) table[(size_t)k * n + i] = v[k] * 2.3283064e-10f;
}

// Recurrent cell of a small batch: state in registers, gates by fast exponentials.
extern "C" __global__ void __launch_bounds__(256) recurrent_cell(const float* __restrict__ input, float* __restrict__ state, int steps) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float h0 = input[i], h1 = h0 * 0.5f, h2 = h0 * 0.25f;
  for (int s = 0; s < steps; ++s) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float u = fmaf(h0, 0.3f, h1 * 0.2f), v = fmaf(h1, 0.4f, h2 * 0.1f), w = fmaf(h2, 0.2f, h0 * 0.3f);
      h0 = u * (1.f - 0.3f * u * u);
      h1 = v * (1.f - 0.3f * v * v);
      h2 = w * (1.f - 0.3f * w * w) + 0.01f;
    }
  }
  state[i] = h0 + h1 + h2;
}

// Scale factors of a quantised layer, one per channel.
extern "C" __global__ void __launch_bounds__(256) channel_scales(const float* __restrict__ maxima, float* __restrict__ scales, int channels) {
  const int c = blockIdx.x * 256 + threadIdx.x;
  if (c < channels) scales[c] = maxima[c] > 0.f ? 127.f / maxima[c] : 0.f;
}

// Rows of a matrix of 64 columns, normalised through a tile without padding; a work-item has a row.
extern "C" __global__ void __launch_bounds__(64) normalise_rows(const float* __restrict__ in, float* __restrict__ out, int sweeps) {
  __shared__ float tile[64 * 64];
  const int t = threadIdx.x;
  const size_t base = (size_t)blockIdx.x * 4096;
  for (int k = 0; k < 64; ++k) tile[k * 64 + t] = in[base + k * 64 + t];
  __syncthreads();
  for (int s = 0; s < sweeps; ++s) {
    float sum = 1.f;
#pragma unroll 16
    for (int k = 0; k < 64; ++k) sum += fabsf(tile[t * 64 + k]);
    const float scale = __builtin_amdgcn_rcpf(sum);
#pragma unroll 16
    for (int k = 0; k < 64; ++k) tile[t * 64 + k] *= scale;
  }
  __syncthreads();
  for (int k = 0; k < 64; ++k) out[base + k * 64 + t] = tile[k * 64 + t];
}
