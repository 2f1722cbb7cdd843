#include <hip/hip_runtime.h>

// Kernels of about 5,900 instructions, for the time to translate them: straight-line arithmetic, float64 with divisions, memory
// operations, and many basic blocks.
#define K extern "C" __global__

__device__ inline void fourier(float2* v) {
#pragma unroll
  for (int span = 32; span >= 1; span /= 2)
#pragma unroll
    for (int k = 0; k < 64; k++) {
      if (k & span) continue;
      float2 a = v[k], b = v[k + span];
      float angle = -3.14159265f * (float)(k % span) / (float)span, c = __builtin_cosf(angle), s = __builtin_sinf(angle);
      float dx = a.x - b.x, dy = a.y - b.y;
      v[k] = make_float2(a.x + b.x, a.y + b.y);
      v[k + span] = make_float2(dx * c - dy * s, dx * s + dy * c);
    }
}

// Three transforms of 64 complex numbers in registers.
K void straight(const float2* x, float2* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 v[64];
#pragma unroll
  for (int k = 0; k < 64; k++) v[k] = x[k * n + i];
#pragma unroll
  for (int round = 0; round < 3; round++) {
    fourier(v);
#pragma unroll
    for (int k = 0; k < 64; k++) v[k].x *= 0.125f + 0.25f * (float)(k + round);
  }
#pragma unroll
  for (int k = 0; k < 64; k++) y[k * n + i] = v[k];
}

K void doubles(const double* x, double* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double a = x[i], s = 0;
#pragma unroll
  for (int k = 0; k < 95; k++) {
    s += sqrt(a * a + k) / (1.0 + s * s);
    a = a * 1.01 + 0.5;
    s += exp(-a * a);
  }
  y[i] = s;
}

K void accesses(const float* x, float* y, int n) {
  __shared__ float tile[4096];
  int t = threadIdx.x, first = blockIdx.x * blockDim.x + t;
  float s = 0;
#pragma unroll
  for (int r = 0; r < 32; r++) {
#pragma unroll
    for (int k = 0; k < 16; k++) tile[(t * 16 + k * 33 + r) & 4095] = x[(first + k * 256 + r * 77) & (n - 1)];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) s += tile[(t + k * 256 + r) & 4095] * (k + r);
    __syncthreads();
  }
  if (first < n) y[first] = s;
}

// Branches on the data of a work-item, loops and switches that are uniform in a wavefront.
template <int N>
__device__ inline float step(float v, unsigned c, const float* t) {
  if (v > (float)N * 0.1f) v = v * 0.5f + t[(c & 1023) + N];
  else v = v + t[c & 1023] * 0.25f;
  for (unsigned k = 0; k < (c & 3); k++) v = v * 0.99f + t[k + N];
  if (c & (1 << (N & 7))) v += 1.0f;
  switch ((c + N) & 7) {
    case 0: v *= 2; break;
    case 1: v += t[N]; break;
    case 2: v = -v; break;
    case 5: v = sqrtf(fabsf(v)); break;
    case 6: v = v / (1 + t[N + 1] * t[N + 1]); break;
  }
  if constexpr (N > 0) return step<N - 1>(v, c * 5 + 1, t);
  else return v;
}

K void branches(const float* x, float* y, const float* t, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = step<48>(x[i], blockIdx.x & 1023, t);
}
