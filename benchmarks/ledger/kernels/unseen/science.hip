// Scientific codes: terse names, loops over everything, written by physicists.
#include <hip/hip_runtime.h>

using real = float;

// Kernel density: Gaussians of all sources at every point.
extern "C" __global__ void __launch_bounds__(256) kde(const float2 *src, const float2 *pts, real *rho, int ns, real h)
{
  __shared__ float2 s[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float2 p = pts[i];
  real r = 0;
  for (int j0 = 0; j0 < ns; j0 += 256) {
    s[threadIdx.x] = src[j0 + threadIdx.x];
    __syncthreads();
#pragma unroll 16
    for (int j = 0; j < 256; ++j) {
      const real dx = p.x - s[j].x, dy = p.y - s[j].y;
      r += __builtin_amdgcn_exp2f(h * (dx * dx + dy * dy));
    }
    __syncthreads();
  }
  rho[i] = r;
}

// Implied volatility: Newton steps on the Black-Scholes price.
static __device__ real cnd(real d)
{
  const real k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const real c = 0.39894228f * __expf(-0.5f * d * d) * k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  return d > 0 ? 1.0f - c : c;
}
extern "C" __global__ void implied_vol(const real *price, real *vol, real s, real x, real t, int newton)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const real target = price[i], st = __builtin_amdgcn_sqrtf(t), lsx = __logf(s / x);
  real v = 0.3f;
  for (int n = 0; n < newton; ++n) {
    const real d1 = (lsx + 0.5f * v * v * t) * __builtin_amdgcn_rcpf(v * st), d2 = d1 - v * st;
    const real f = s * cnd(d1) - x * cnd(d2) - target, vega = s * 0.39894228f * __expf(-0.5f * d1 * d1) * st;
    v = fmaxf(0.01f, v - f * __builtin_amdgcn_rcpf(vega + 1e-3f) * 0.5f);
  }
  vol[i] = v;
}

// Double-precision Chebyshev recurrences, 4 independent ones per work-item.
extern "C" __global__ void chebyshev(double *out, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const double x = 2.0e-6 * i - 1.0;
  double a0 = 1, a1 = x, b0 = 1, b1 = x * 0.5, c0 = 1, c1 = x * 0.25, d0 = 1, d1 = x * 0.125;
  for (int k = 0; k < n; ++k) {
    a0 = fma(x, a1, -a0); b0 = fma(x, b1, -b0); c0 = fma(x, c1, -c0); d0 = fma(x, d1, -d0);
    a1 = fma(x, a0, -a1); b1 = fma(x, b0, -b1); c1 = fma(x, c0, -c1); d1 = fma(x, d0, -d1);
  }
  out[i] = a1 + b1 + c1 + d1;
}

// FIR filter: window of the signal in LDS, one output per work-item, taps as scalars.
extern "C" __global__ void __launch_bounds__(256) fir(const real *__restrict__ x, const real *__restrict__ taps, real *__restrict__ y, int n, int blocks)
{
  __shared__ real w[256 + 128];
  for (int b = 0; b < blocks; ++b) {
    const size_t at = ((size_t)blockIdx.x * blocks + b) * 256;
    w[threadIdx.x] = x[at + threadIdx.x];
    if (threadIdx.x < 128) w[256 + threadIdx.x] = x[at + 256 + threadIdx.x];
    __syncthreads();
    real s = 0;
#pragma unroll 16
    for (int k = 0; k < n; ++k) s = fmaf(taps[k], w[threadIdx.x + k], s);
    y[at + threadIdx.x] = s;
    __syncthreads();
  }
}

// Additive synthesis from a wave table: voices with an offset each.
extern "C" __global__ void __launch_bounds__(256) synth(const float4 *table, float4 *out, int voices, int mask)
{
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) >> 6;
  float4 s = {0, 0, 0, 0};
#pragma unroll 8
  for (int v = 0; v < voices; ++v) {
    const float4 t = table[((wave + v * 5) * 64 & mask) + lane];
    s.x += t.x; s.y += t.y; s.z += t.z; s.w += t.w;
  }
  out[(size_t)wave * 64 + lane] = s;
}

// Scatter of charges to their sorted places.
extern "C" __global__ void permute(const float *q, const int *place, float *sorted)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  sorted[place[i]] = q[i];
}

// Probe of a hash table with 8-byte entries by unordered keys.
extern "C" __global__ void probe(const unsigned *keys, const uint2 *table, unsigned *found, unsigned mask)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned k = keys[i], h = (k ^ k >> 15) * 0x2c1b3c6du;
  const uint2 e = table[h & mask];
  found[i] = e.x == k ? e.y : 0;
}

// Inverse of a 10 x 10 matrix per element with row pivoting.
extern "C" __global__ void invert_10(const real *a, real *inv, int n)
{
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  real m[10][11];
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 10; ++j) m[i][j] = a[(i * 10 + j) * n + e];
  for (int i = 0; i < 10; ++i) m[i][10] = i + 1;
#pragma unroll 1
  for (int k = 0; k < 10; ++k) {
    int p = k;
#pragma unroll 1
    for (int i = k + 1; i < 10; ++i) if (fabsf(m[i][k]) > fabsf(m[p][k])) p = i;
#pragma unroll 1
    for (int j = k; j < 11; ++j) { const real t = m[k][j]; m[k][j] = m[p][j]; m[p][j] = t; }
    const real d = 1.0f / m[k][k];
#pragma unroll 1
    for (int i = k + 1; i < 10; ++i) {
      const real f = m[i][k] * d;
#pragma unroll 1
      for (int j = k; j < 11; ++j) m[i][j] -= f * m[k][j];
    }
  }
#pragma unroll 1
  for (int i = 9; i >= 0; --i) {
    real s = m[i][10];
#pragma unroll 1
    for (int j = i + 1; j < 10; ++j) s -= m[i][j] * inv[j * n + e];
    inv[i * n + e] = s / m[i][i];
  }
}

// Block solver: all wavefronts assemble, the first one eliminates.
extern "C" __global__ void __launch_bounds__(512) assemble_and_solve(const real *k, real *u, int steps, int sweeps)
{
  __shared__ real a[64][65], r[64];
  for (int s = 0; s < steps; ++s) {
    const size_t at = ((size_t)blockIdx.x * steps + s) * 4096;
    for (int i = threadIdx.x; i < 4096; i += 512) a[i / 64][i % 64] = k[at + i] + (i / 64 == i % 64 ? 80.0f : 0.0f);
    if (threadIdx.x < 64) r[threadIdx.x] = 1.0f;
    __syncthreads();
    if (threadIdx.x < 64) {
      real x = 0;
      for (int it = 0; it < sweeps; ++it) {
        real y = 1.0f;
#pragma unroll 8
        for (int j = 0; j < 64; ++j) y -= a[threadIdx.x][j] * r[j];
        x += y * 0.0125f;
        r[threadIdx.x] = x;
      }
    }
    __syncthreads();
    if (threadIdx.x < 64) u[((size_t)blockIdx.x * steps + s) * 64 + threadIdx.x] = r[threadIdx.x];
    __syncthreads();
  }
}

// Log of blocks of 64 words: word 0 of the running block is the next one.
extern "C" __global__ void __launch_bounds__(512) replay_log(const unsigned *log, unsigned *sum, int blocks, unsigned mask)
{
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 512 + threadIdx.x) >> 6;
  unsigned at = wave * 131u & mask, s = 0;
  for (int b = 0; b < blocks; ++b) {
    const unsigned w = log[at * 64 + lane];
    s ^= w;
    at = __shfl(w, 0) & mask;
  }
  sum[wave * 64 + lane] = s;
}

// Shading: materials differ from pixel to pixel, each has its own model.
extern "C" __global__ void shade(const unsigned char *material, const float4 *light, float *out)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int m = material[i];
  float4 l = light[i & 255];
  float c = 0;
  if (m == 0) for (int k = 0; k < 24; ++k) { const float h = __builtin_amdgcn_rsqf(l.x * l.x + k * 0.1f); c += h * l.y; l.x = fmaf(h, 0.3f, l.x); }
  else if (m == 1) for (int k = 0; k < 24; ++k) { c += __expf(-l.z * k) * l.w; l.z = fmaf(c, 0.01f, l.z); }
  else if (m == 2) for (int k = 0; k < 24; ++k) { const float s = l.x * l.y - l.z; c = fmaf(s, s, c * 0.9f); l.y += 0.02f; }
  else if (m == 3) for (int k = 0; k < 24; ++k) { c += __logf(1.0f + l.w + k); l.w = l.w * 0.97f + c * 0.001f; }
  else if (m == 4) for (int k = 0; k < 24; ++k) { const float d = l.x - c; c += d > 0.5f ? d * 0.25f : d * d; l.x *= 1.01f; }
  else if (m == 5) for (int k = 0; k < 24; ++k) { c = fmaxf(c * 0.5f + l.y, l.z - c); l.z += 0.1f; l.y *= 0.99f; }
  else if (m == 6) for (int k = 0; k < 24; ++k) { const float f = __builtin_amdgcn_rcpf(1.0f + l.w * l.w); c += f * l.x; l.w += f; }
  else for (int k = 0; k < 24; ++k) { c = c * l.x + l.y; c = c * l.z + l.w; l.x = -l.x; }
  out[i] = c;
}

// Modular exponentiation of one number per wavefront in scalar registers.
extern "C" __global__ void __launch_bounds__(256) modular_power(const unsigned *base, unsigned *out, unsigned exponent, int rounds)
{
  const int wave = (blockIdx.x * 256 + threadIdx.x) >> 6;
  unsigned b = __builtin_amdgcn_readfirstlane(base[wave]), r = 1;
  for (int k = 0; k < rounds; ++k) {
    unsigned e = exponent + k, x = b;
    while (e) {
      if (e & 1) r = r * x + (r >> 7);
      x = x * x ^ x >> 9;
      e >>= 1;
    }
    b += r & 15;
  }
  if ((threadIdx.x & 63) == 0) out[wave] = r;
}

// Walk of a cluster tree towards its root, a wavefront per leaf.
extern "C" __global__ void __launch_bounds__(64) tree_walk(const int *__restrict__ parent, real *__restrict__ out, int n, int depth)
{
  real s = 0;
  int v = blockIdx.x * 61 % n;
  for (int k = 0; k < depth; ++k) {
    s = s * 0.5f + (v ^ threadIdx.x);
    v = parent[v];
  }
  out[blockIdx.x * 64 + threadIdx.x] = s;
}

// Relaxation of a patch of 14 x 14 cells per work-item, all sweeps in one launch.
extern "C" __global__ void __launch_bounds__(1024) relax_patch(const real *u0, real *u1, int sweeps)
{
  constexpr int N = 14;
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, n = (size_t)gridDim.x * blockDim.x;
  real u[N][N];
#pragma unroll
  for (int y = 0; y < N; ++y)
#pragma unroll
    for (int x = 0; x < N; ++x) u[y][x] = u0[(y * N + x) * n + i];
#pragma unroll 1
  for (int s = 0; s < sweeps; ++s)
#pragma unroll
    for (int y = 0; y < N; ++y)
#pragma unroll
      for (int x = 0; x < N; ++x)
        u[y][x] = 0.25f * (u[(y + 1) % N][x] + u[(y + N - 1) % N][x] + u[y][(x + 1) % N] + u[y][(x + N - 1) % N]);
#pragma unroll
  for (int y = 0; y < N; ++y)
#pragma unroll
    for (int x = 0; x < N; ++x) u1[(y * N + x) * n + i] = u[y][x];
}
