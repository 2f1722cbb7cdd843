#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#define K extern "C" __global__

// Kernels written and labelled after the rules were final; benchmarks/bottleneck_cases.py has the labels.
// Only the last argument is written.
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define N (gridDim.x * blockDim.x)
static __device__ unsigned mixed(unsigned x) { x *= 0x9e3779b1u; x ^= x >> 15; x *= 0x85ebca77u; return x ^ (x >> 13); }

// --- streams
K void split_triples(const float* in, float* out) {
  const unsigned i = I, n = N;
  out[i] = in[3 * i]; out[n + i] = in[3 * i + 1]; out[2 * n + i] = in[3 * i + 2];
}
K void softmax_rows(const float4* in, float4* out) {
  __shared__ float part[4];
  const unsigned at = blockIdx.x * 256 + threadIdx.x, wave = threadIdx.x / 64;
  float4 v = in[at];
  float m = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
  for (int d = 32; d; d /= 2) m = fmaxf(m, __shfl_xor(m, d));
  if (threadIdx.x % 64 == 0) part[wave] = m;
  __syncthreads();
  m = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();
  v.x = __expf(v.x - m); v.y = __expf(v.y - m); v.z = __expf(v.z - m); v.w = __expf(v.w - m);
  float s = v.x + v.y + v.z + v.w;
  for (int d = 32; d; d /= 2) s += __shfl_xor(s, d);
  if (threadIdx.x % 64 == 0) part[wave] = s;
  __syncthreads();
  const float f = 1.0f / (part[0] + part[1] + part[2] + part[3]);
  out[at] = make_float4(v.x * f, v.y * f, v.z * f, v.w * f);
}
K void reversed(const float2* in, float2* out) { out[I] = in[N - 1 - I]; }
K void scale_halves(const uint4* in, uint4* out) {
  uint4 v = in[I];
  const __half2 f = __float2half2_rn(0.5f);
  __half2* h = (__half2*)&v;
  for (int k = 0; k < 4; k++) h[k] = __hmul2(h[k], f);
  out[I] = v;
}
K void table_lookup(const unsigned* table, unsigned* out) {
  unsigned x = I, sum = 0;
#pragma unroll 8
  for (int r = 0; r < 64; r++) { x = mixed(x + r); sum += table[x & 0x3ffff]; }
  out[I] = sum;
}
K void lds_words(const float* in, float* out) {
  __shared__ float tile[1024];
  for (int k = threadIdx.x; k < 1024; k += 256) tile[k] = in[k];
  __syncthreads();
  unsigned at = threadIdx.x;
  float sum = 0;
#pragma unroll 16
  for (int r = 0; r < 320; r++) { asm volatile("" : "+v"(at)); sum += tile[(at & 511) + r % 16 * 32]; }
  out[I] = sum;
}

// --- arithmetic
K void polynomial(float* out) {
  const float x = I * 1e-7f;
  float a = 1, b = 2;
  for (int r = 0; r < 20; r++) {
#pragma unroll
    for (int k = 0; k < 32; k++) { a = fmaf(a, x, 0.1f * k); b = fmaf(b, x, 0.3f * k); }
  }
  out[I] = a + b;
}
K void rotations(unsigned* out) {
  unsigned a = I, b = ~I, c = I * 3, d = 7;
  for (int r = 0; r < 200; r++) {
    a += (b & c) | (~b & d); a = b + (a << 7 | a >> 25);
    d += (a & b) | (~a & c); d = a + (d << 12 | d >> 20);
  }
  out[I] = a ^ d;
}
K void divide_f64(double* out) {
  double a = I + 1, b = 3;
  for (int r = 0; r < 40; r++) { a = 5.0 + a / b; b = 2.0 + b / a; }
  out[I] = a + b;
}
K void sines(float* out) {
  float a = I * 1e-6f;
  for (int r = 0; r < 60; r++) a = __sinf(a) + 0.5f * __cosf(a);
  out[I] = a;
}
typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
K void matrix_bf16(float* out) {
  bf16x4 a = {0x3f80, 0x4000, 0x3f00, (short)threadIdx.x}, b = {0x3f80, 0x3f80, 0x4000, 0x3e80};
  f32x4 c = {}, d = {}, e = {}, f = {};
  for (int r = 0; r < 60; r++) {
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(b, a, d, 0, 0, 0);
    e = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, a, e, 0, 0, 0);
    f = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(b, b, f, 0, 0, 0);
  }
  out[I] = c[0] + d[1] + e[2] + f[3];
}

// --- waiting
K void hash_probe(const uint2* slots, unsigned* out) {
  unsigned key = mixed(I / 64), found = 0;
  for (int r = 0; r < 30; r++) { const uint2 s = slots[key & 0xffffff]; found += s.x; key = mixed(key + s.y + r); }
  out[I] = found;
}
K void scan_1024(const float* in, float* out) {
  __shared__ float line[2][1024];
  const unsigned t = threadIdx.x;
  float sum = 0;
  for (int r = 0; r < 6; r++) {
    int side = 0;
    line[0][t] = in[t] + sum;
    __syncthreads();
    for (unsigned d = 1; d < 1024; d *= 2) {
      line[1 - side][t] = line[side][t] + (t >= d ? line[side][t - d] : 0);
      side = 1 - side;
      __syncthreads();
    }
    sum = line[side][t];
    __syncthreads();
  }
  out[I] = sum;
}
K void tickets(unsigned* out) {
  unsigned at = I / 64 * 64, sum = 0;
  if (threadIdx.x % 64 == 0) for (int r = 0; r < 20; r++) { const unsigned got = atomicAdd(&out[at], 1u); sum += got; at = I / 64 * 64 + (got & 31); }
  if (sum == 0xffffffff) out[I] = sum;
}

// --- places
K void __launch_bounds__(256, 1) two_files(const unsigned* next, unsigned* out) {
  asm volatile("" ::: "v120", "a120");
  unsigned at = I / 64 & 0xffff;
  for (int s = 0; s < 60; s++) { asm volatile("" : "+v"(at)); at = next[at & 0xffff]; }
  out[I] = at;
}
K void wide_scratchpad(const float* in, float* out) {
  __shared__ float pad[8192];
  for (int k = threadIdx.x; k < 8192; k += 64) pad[k] = in[k];
  __syncthreads();
  float a = pad[threadIdx.x];
  for (int r = 0; r < 300; r++) a = pad[(unsigned)(a * 3 + threadIdx.x) & 8191] * 0.5f + 1.0f;
  out[I] = a;
}
K void few_readers(const float4* in, float* out) {
  float sum = 0;
  for (int r = 0; r < 400; r++) { const float4 v = in[(size_t)r * N + I]; sum += v.x + v.y + v.z + v.w; }
  out[I] = sum;
}

// --- lanes
K void triangle(unsigned* out) {
  unsigned x = I;
  for (unsigned r = 0; r < threadIdx.x % 64 * 4; r++) x = mixed(x + r);
  out[I] = x;
}
K void sparse_rows(const unsigned* in, unsigned* out) {
  unsigned x = in[I];
  if (x % 10 == 0) for (int r = 0; r < 150; r++) x = mixed(x ^ r);
  out[I] = x;
}
K void own_newton(const float* in, float* out) {
  const float a = in[I];
  float x = a;
  while (fabsf(x * x - a) > 1e-5f * a) x = 0.5f * (x + a * __builtin_amdgcn_rcpf(x));
  out[I] = x;
}

// --- banks
K void f64_rows(const double* in, double* out) {
  __shared__ double tile[64 * 16];
  for (int k = threadIdx.x; k < 1024; k += 256) tile[k] = in[k];
  __syncthreads();
  unsigned at = threadIdx.x % 64 * 16;
  double sum = 0;
#pragma unroll 4
  for (int r = 0; r < 120; r++) { asm volatile("" : "+v"(at)); sum += tile[at]; }
  out[I] = sum;
}
K void sixteen_apart(const float* in, float* out) {
  __shared__ float tile[1024];
  for (int k = threadIdx.x; k < 1024; k += 256) tile[k] = in[k];
  __syncthreads();
  float sum = 0;
  for (int r = 0; r < 150; r++) { tile[threadIdx.x % 64 * 16 + r % 16] = sum; sum += 1.5f; asm volatile("" ::: "memory"); }
  __syncthreads();
  out[I] = tile[threadIdx.x] + sum;
}
K void turned_tile(const float* in, float* out) {
  __shared__ float tile[64][64];
  const unsigned x = threadIdx.x % 64, y = threadIdx.x / 64;
  float sum = 0;
  for (int r = 0; r < 4; r++) {
    for (unsigned q = y; q < 64; q += 4) tile[x][q] = in[(q * 64 + x + r) & 4095];
    __syncthreads();
    for (unsigned q = y; q < 64; q += 4) sum += tile[q][x];
    __syncthreads();
  }
  out[I] = sum;
}

// --- launches
K void dot_1024(const float* x, const float* y, float* out) {
  float s = x[threadIdx.x] * y[threadIdx.x];
  for (int d = 32; d; d /= 2) s += __shfl_xor(s, d);
  if (threadIdx.x % 64 == 0) atomicAdd(out, s);
}
K void clamp_some(const float* x, float* out) { out[I] = fminf(fmaxf(x[I], 0.25f), 0.75f); }
