#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#define K extern "C" __global__

// Kernels that the rules of analysis/bottleneck.yaml were not written with: each is limited by one thing, which the table in
// benchmarks/bottleneck_cases.py states with its reason. The last argument is the only one that is written.
static __device__ unsigned hashed(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ (x >> 16);
}
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define N (gridDim.x * blockDim.x)

// --- streams -------------------------------------------------------------------------------------------------------
K void fill(float4* out) { out[I] = make_float4(1, 2, 3, 4); }
K void copy_f64(const double* in, double* out) { out[I] = in[I]; }
K void saxpy_loop(const float* x, const float* y, float* out) {
  for (unsigned i = I; i < 8 * N; i += N) out[i] = 2.5f * x[i] + y[i];
}
K void sum_rows(const float4* in, float* out) {
  float sum = 0;
#pragma unroll
  for (int r = 0; r < 16; r++) { const float4 v = in[(size_t)r * N + I]; sum += v.x + v.y + v.z + v.w; }
  for (int d = 32; d; d /= 2) sum += __shfl_xor(sum, d);
  if (threadIdx.x % 64 == 0) out[I / 64] = sum;
}
K void widen(const uchar4* in, float4* out) {
  const uchar4 v = in[I];
  out[I] = make_float4(v.x * 0.1f, v.y * 0.1f, v.z * 0.1f, v.w * 0.1f);
}
K void one_byte_each(const unsigned char* in, unsigned char* out) { out[I] = in[I] + 1; }
K void one_line_each(const float* in, float* out) { out[I] = in[(size_t)I * 32]; }
K void gather(const float* table, float* out) {
  float sum = 0;
#pragma unroll
  for (int r = 0; r < 4; r++) sum += table[hashed(I * 4 + r) & 0x3ffffff];
  out[I] = sum;
}
K void stencil(const float* in, float* out) {
  const int w = 8192, x = threadIdx.x + blockIdx.x % 32 * 256, y = blockIdx.x / 32 + 1;
  const int l = x ? x - 1 : 0, r = x < w - 1 ? x + 1 : x;
  const float* row = in + (size_t)y * w;
  out[(size_t)y * w + x] = 0.2f * (row[x] + row[l] + row[r] + row[x - w] + row[x + w]);
}
K void matrix_vector(const float4* a, const float4* x, float* out) {
  const unsigned row = I / 64, lane = threadIdx.x % 64;
  float sum = 0;
#pragma unroll 4
  for (int c = 0; c < 16; c++) {
    const float4 p = a[(size_t)row * 1024 + c * 64 + lane], q = x[c * 64 + lane];
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  for (int d = 32; d; d /= 2) sum += __shfl_xor(sum, d);
  if (lane == 0) out[row] = sum;
}
K void transpose_padded(const float* in, float* out) {
  __shared__ float tile[32][33];
  const int n = 12288, bx = blockIdx.x % 384 * 32, by = blockIdx.x / 384 * 32, tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  for (int r = 0; r < 32; r += 8) tile[ty + r][tx] = in[(size_t)(by + ty + r) * n + bx + tx];
  __syncthreads();
  for (int r = 0; r < 32; r += 8) out[(size_t)(bx + ty + r) * n + by + tx] = tile[tx][ty + r];
}
K void transpose_naive(const float* in, float* out) {
  const int n = 4096, x = threadIdx.x + blockIdx.x % 16 * 256, y = blockIdx.x / 16;
  out[(size_t)x * n + y] = in[(size_t)y * n + x];
}
K void l2_sweep(const float4* in, float* out) {
  float sum = 0;
#pragma unroll 4
  for (int r = 0; r < 64; r++) { const float4 v = in[(I * 3 + r * 4096) & 0x1ffff]; sum += v.x + v.y + v.z + v.w; }
  out[I] = sum;
}
K void mall_sweep(const float4* in, float* out) {
  float sum = 0;
#pragma unroll 4
  for (int r = 0; r < 128; r++) { const float4 v = in[(I + r * N) & 0x3fffff]; sum += v.x + v.y + v.z + v.w; }
  out[I] = sum;
}
K void l1_wide(const float4* in, float* out) {
  float sum = 0;
  unsigned at = threadIdx.x;
#pragma unroll 8
  for (int r = 0; r < 256; r++) { asm volatile("" : "+v"(at)); const float4 v = in[(at + r * 64) & 511]; sum += v.x + v.y + v.z + v.w; }
  out[I] = sum;
}
K void l1_scattered(const float* in, float* out) {
  float sum = 0;
  unsigned at = threadIdx.x * 32;
#pragma unroll 8
  for (int r = 0; r < 128; r++) { asm volatile("" : "+v"(at)); sum += in[(at + r) & 4095]; }
  out[I] = sum;
}
K void lds_wide(const float4* in, float* out) {
  __shared__ float4 tile[512];
  tile[threadIdx.x] = in[threadIdx.x]; tile[threadIdx.x + 256] = in[threadIdx.x + 256];
  __syncthreads();
  unsigned at = threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int r = 0; r < 256; r++) { asm volatile("" : "+v"(at)); const float4 v = tile[(at + r) & 511]; sum += v.x + v.y + v.z + v.w; }
  out[I] = sum;
}

// --- arithmetic ----------------------------------------------------------------------------------------------------
K void fma_f64(double* out) {
  double a = I, b = a + 1, c = a + 2, d = a + 3;
  for (int r = 0; r < 400; r++) { a = fma(a, 0.5, 1.0); b = fma(b, 0.5, 1.0); c = fma(c, 0.5, 1.0); d = fma(d, 0.5, 1.0); }
  out[I] = a + b + c + d;
}
K void hash_rounds(unsigned* out) {
  unsigned x = I;
  for (int r = 0; r < 150; r++) x = hashed(x + r);
  out[I] = x;
}
K void half_pairs(__half2* out) {
  __half2 a = __float2half2_rn(I % 7), b = __float2half2_rn(I % 5), c = __float2half2_rn(0.5f);
  for (int r = 0; r < 800; r++) { a = __hfma2(a, c, b); b = __hfma2(b, c, a); }
  out[I] = __hadd2(a, b);
}
K void logarithms(float* out) {
  float a = I + 1, b = I + 2;
  for (int r = 0; r < 200; r++) { a = 2.0f + __builtin_amdgcn_logf(a); b = 2.0f + __builtin_amdgcn_rcpf(b); }
  out[I] = a + b;
}
K void one_chain(float* out) {
  float a = I;
  for (int r = 0; r < 1500; r++) a = fmaf(a, 0.25f, 3.0f);
  out[I] = a;
}
K void divide_integers(unsigned* out) {
  unsigned a = I | 0x80000000u, b = I % 77 + 3;
  for (int r = 0; r < 60; r++) { a = 0x80000000u + a / b; b += r & 3; }
  out[I] = a;
}
K void bodies(const float4* in, float* out) {
  __shared__ float4 tile[256];
  const float4 me = in[I % 4096];
  float fx = 0, fy = 0, fz = 0;
  for (int t = 0; t < 4; t++) {
    tile[threadIdx.x] = in[t * 256 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 256; k++) {
      const float4 o = tile[k];
      const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z, s = dx * dx + dy * dy + dz * dz + 0.01f;
      const float q = __builtin_amdgcn_rsqf(s), f = o.w * q * q * q;
      fx += f * dx; fy += f * dy; fz += f * dz;
    }
    __syncthreads();
  }
  out[I] = fx + fy + fz;
}
typedef _Float16 half4_t __attribute__((ext_vector_type(4)));
typedef float float16_t __attribute__((ext_vector_type(16)));
typedef double double4_t __attribute__((ext_vector_type(4)));
typedef int int16_t_ __attribute__((ext_vector_type(16)));
K void matrix_f16(float* out) {
  half4_t a = {1, 2, 3, 4}, b = {4, 3, 2, (_Float16)(int)threadIdx.x};
  float16_t c = {}, d = {};
  for (int r = 0; r < 100; r++) {
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f32_32x32x8f16(b, a, d, 0, 0, 0);
  }
  out[I] = c[0] + d[3];
}
K void matrix_f64(double* out) {
  double4_t c = {}, d = {};
  const double a = threadIdx.x, b = 0.5;
  for (int r = 0; r < 100; r++) {
    c = __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f64_16x16x4f64(b, a, d, 0, 0, 0);
  }
  out[I] = c[0] + d[3];
}
K void matrix_i8(int* out) {
  int16_t_ c = {}, d = {};
  const long a = threadIdx.x, b = 0x0102030405060708;
  for (int r = 0; r < 100; r++) {
    c = __builtin_amdgcn_mfma_i32_32x32x16_i8(a, b, c, 0, 0, 0);
    d = __builtin_amdgcn_mfma_i32_32x32x16_i8(b, a, d, 0, 0, 0);
  }
  out[I] = c[0] + d[3];
}
K void scalar_rounds(const unsigned* in, unsigned* out) {
  unsigned s = __builtin_amdgcn_readfirstlane(in[blockIdx.x & 63]);
  for (int r = 0; r < 400; r++) { s = s * 1664525u + 1013904223u; s ^= s >> 7; s += s << 3; asm volatile("" : "+s"(s)); }
  out[I] = s;
}
K void register_tiles(const float* a, const float* b, float* out) {  // 4096 x 4096 x 128, tiles of 64 x 64, 4 x 4 each
  __shared__ float as[16][64], bs[16][64];
  const int n = 4096, k = 128, bx = blockIdx.x % 64 * 64, by = blockIdx.x / 64 * 64, t = threadIdx.x, tx = t % 16 * 4, ty = t / 16 * 4;
  float c[4][4] = {};
  for (int s = 0; s < k; s += 16) {
    for (int i = t; i < 1024; i += 256) { as[i / 64][i % 64] = a[(s + i / 64) * n + by + i % 64]; bs[i / 64][i % 64] = b[(s + i / 64) * n + bx + i % 64]; }
    __syncthreads();
    for (int q = 0; q < 16; q++) {
      const float4 u = *(float4*)&as[q][ty], v = *(float4*)&bs[q][tx];
      const float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) c[i][j] = fmaf(us[i], vs[j], c[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) out[(size_t)(by + ty + i) * n + bx + tx + j] = c[i][j];
}
K void small_tiles(const float* a, const float* b, float* out) {  // 1024 x 1024 x 128, tiles of 16 x 16
  __shared__ float as[16][16], bs[16][16];
  const int n = 1024, tx = threadIdx.x % 16, ty = threadIdx.x / 16, x = blockIdx.x % 64 * 16 + tx, y = blockIdx.x / 64 * 16 + ty;
  float c = 0;
  for (int s = 0; s < 128; s += 16) {
    as[ty][tx] = a[y * 128 + s + tx]; bs[ty][tx] = b[(s + ty) * n + x];
    __syncthreads();
    for (int q = 0; q < 16; q++) c = fmaf(as[ty][q], bs[q][tx], c);
    __syncthreads();
  }
  out[y * n + x] = c;
}

K void three_phases(const float4* in, float* out) {  // memory, LDS and FMA in turn, a barrier between them
  __shared__ float4 tile[256];
  float sum = 0;
  for (int r = 0; r < 8; r++) {
    float4 v = in[(size_t)r * N + I];
    tile[threadIdx.x] = v;
    __syncthreads();
    unsigned at = threadIdx.x;
    for (int q = 0; q < 12; q++) { asm volatile("" : "+v"(at)); const float4 w = tile[(at + q) & 255]; v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w; }
    __syncthreads();
    for (int q = 0; q < 60; q++) v.x = fmaf(v.x, v.y, v.z);
    sum += v.x + v.w;
  }
  out[I] = sum;
}
// --- waiting -------------------------------------------------------------------------------------------------------
K void linked_list(const uint2* nodes, unsigned* out) {
  unsigned at = (I / 64 * 977) & 0x7fffff, sum = 0;
  for (int s = 0; s < 60; s++) { const uint2 n = nodes[at]; at = n.x; sum += n.y; }
  out[I] = sum;
}
K void binary_search(const unsigned* sorted, unsigned* out) {
  const unsigned key = hashed(I / 64) >> 2;
  unsigned lo = 0, n = 1u << 24;
  while (n > 1) { n /= 2; if (sorted[lo + n] <= key) lo += n; }
  out[I] = lo;
}
K void barriers(const float* in, float* out) {
  __shared__ float tree[256];
  float sum = 0;
  for (int r = 0; r < 30; r++) {
    tree[threadIdx.x] = in[(threadIdx.x + r) & 1023];
    __syncthreads();
    for (int d = 128; d; d /= 2) { if (threadIdx.x < d) tree[threadIdx.x] += tree[threadIdx.x + d]; __syncthreads(); }
    sum += tree[0];
    __syncthreads();
  }
  out[I] = sum;
}
K void lds_chase(const unsigned* in, unsigned* out) {
  __shared__ unsigned next[4096];
  for (int i = threadIdx.x; i < 4096; i += 256) next[i] = in[i];
  __syncthreads();
  unsigned at = threadIdx.x / 64 * 17;
  for (int s = 0; s < 1000; s++) at = next[at];
  out[I] = at;
}
K void lone_lane(const unsigned* in, unsigned* out) {  // the first lane works, 63 are switched off
  unsigned at = blockIdx.x & 1023;
  if (threadIdx.x % 64 == 0) for (int s = 0; s < 100; s++) { asm volatile("" : "+v"(at)); at = in[at & 0x7ffff] ^ s; }
  out[I] = at;
}
K void few_conflicts(const unsigned* in, unsigned* out) {  // one column of a tile between long waits
  __shared__ unsigned tile[64 * 32];
  for (int i = threadIdx.x; i < 2048; i += 256) tile[i] = in[i];
  __syncthreads();
  unsigned at = blockIdx.x & 1023;
  for (int s = 0; s < 40; s++) { at = in[at & 0x7ffff]; if (s % 8 == 0) at += tile[threadIdx.x % 64 * 32 + s % 32] & 1; at = __builtin_amdgcn_readfirstlane(at); }
  out[I] = at;
}
K void one_counter(unsigned* out) { for (int r = 0; r < 4; r++) atomicAdd(&out[r * 1024], 1u); }
K void global_bins(const unsigned* in, unsigned* out) { for (int r = 0; r < 8; r++) atomicAdd(&out[in[r * N + I] & 255], 1u); }

// --- places on the device ------------------------------------------------------------------------------------------
K void static_lds(const unsigned* next, unsigned* out) {
  __shared__ unsigned all[15360];
  all[threadIdx.x] = next[threadIdx.x];
  __syncthreads();
  unsigned at = all[threadIdx.x / 64];
  for (int s = 0; s < 100; s++) { asm volatile("" : "+v"(at)); at = next[at & 0x3ffff]; }
  out[I] = at + all[(at * 7) % 256];
}
K void dynamic_lds(const unsigned* next, unsigned* out) {
  extern __shared__ unsigned all[];
  all[threadIdx.x] = next[threadIdx.x];
  __syncthreads();
  unsigned at = all[threadIdx.x / 64];
  for (int s = 0; s < 100; s++) { asm volatile("" : "+v"(at)); at = next[at & 0x3ffff]; }
  out[I] = at;
}
K void __launch_bounds__(256, 1) half_registers(const float* in, float* out) {
  asm volatile("" ::: "v250");
  out[I] = in[I] * 3.0f;
}
K void long_loop(const float* in, float* out) {
  float a = in[threadIdx.x], b = a;
  for (int r = 0; r < 4000; r++) { a = fmaf(a, 0.5f, b); b = fmaf(b, 0.25f, a); }
  out[I] = a + b;
}

// --- lanes ---------------------------------------------------------------------------------------------------------
K void rare_work(const unsigned* in, float* out) {
  float x = in[I];
  if (in[I] % 32 == 0) for (int r = 0; r < 400; r++) x = fmaf(x, 0.5f, 1.0f) * x;
  out[I] = x;
}
K void eight_ways(const float* in, float* out) {
  float x = in[I % 1024];
  switch (threadIdx.x % 8) {
    case 0: for (int r = 0; r < 100; r++) x = fmaf(x, x, 0.1f); break;
    case 1: for (int r = 0; r < 100; r++) x = fmaf(x, 0.2f, x); break;
    case 2: for (int r = 0; r < 100; r++) x = x * 0.3f - 1.0f; break;
    case 3: for (int r = 0; r < 100; r++) x = fmaxf(x * 1.5f, 0.2f) - x; break;
    case 4: for (int r = 0; r < 100; r++) x = fabsf(x - 0.7f) * 1.3f; break;
    case 5: for (int r = 0; r < 100; r++) x = fminf(x * 2.5f, 9.0f) + 0.1f; break;
    case 6: for (int r = 0; r < 100; r++) x = (x + 1.0f) * (x - 1.0f); break;
    default: for (int r = 0; r < 100; r++) x = x * x * 0.01f + 3.0f;
  }
  out[I] = x;
}
K void own_trips(const unsigned* in, unsigned* out) {
  unsigned x = I;
  const unsigned trips = in[I];
  for (unsigned r = 0; r < trips; r++) x = hashed(x + r);
  out[I] = x;
}
K void two_ways(const float* in, float* out) {
  float x = in[I % 1024];
  if (threadIdx.x % 2) for (int r = 0; r < 500; r++) x = fmaf(x, 0.5f, 1.0f) * 0.9f;
  else for (int r = 0; r < 500; r++) x = fmaxf(x * 1.1f, 0.3f) - 0.1f;
  out[I] = x;
}
K void mandelbrot(const float* in, unsigned* out) {
  const unsigned i = I;
  const float cx = -2.0f + 3.0f * (i % 1024) / 1024, cy = -1.0f + 2.0f * (i / 1024) / 1216 + in[0];
  float x = 0, y = 0;
  unsigned n = 0;
  while (n < 256 && x * x + y * y < 4) { const float t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; n++; }
  out[i] = n;
}

// --- banks of LDS --------------------------------------------------------------------------------------------------
template <int STRIDE> static __device__ void strided(const float* in, float* out) {
  __shared__ float tile[64 * STRIDE];
  for (int i = threadIdx.x; i < 64 * STRIDE; i += 256) tile[i] = in[i];
  __syncthreads();
  unsigned at = threadIdx.x % 64 * STRIDE;
  float sum = 0;
#pragma unroll 4
  for (int r = 0; r < 200; r++) { asm volatile("" : "+v"(at)); sum += tile[at]; }
  out[I] = sum;
}
K void two_way(const float* in, float* out) { strided<2>(in, out); }
K void four_way(const float* in, float* out) { strided<4>(in, out); }
K void eight_way(const float* in, float* out) { strided<8>(in, out); }
K void columns(const float* in, float* out) {  // a tile is turned round, without padding
  __shared__ float tile[32][32];
  const int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  float sum = in[threadIdx.x];
  for (int r = 0; r < 20; r++) {
    for (int q = 0; q < 32; q += 8) tile[ty + q][tx] = sum + q;
    __syncthreads();
    for (int q = 0; q < 32; q += 8) sum += tile[tx][ty + q];
    __syncthreads();
  }
  out[I] = sum;
}
K void local_bins(const unsigned* in, unsigned* out) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  unsigned x = in[threadIdx.x];
  for (int r = 0; r < 100; r++) { x = x * 1664525u + 1013904223u; atomicAdd(&bins[x >> 24], 1u); }
  __syncthreads();
  out[I] = bins[threadIdx.x];
}

// --- launches ------------------------------------------------------------------------------------------------------
K void reset(unsigned* out) { out[I] = 0; }
K void add_some(const float* x, const float* y, float* out) { out[I] = x[I] + y[I]; }
