#include <hip/hip_runtime.h>

typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef float f32v __attribute__((ext_vector_type(32)));
typedef double d4 __attribute__((ext_vector_type(4)));
typedef float f2 __attribute__((ext_vector_type(2)));
typedef int i32v __attribute__((ext_vector_type(32)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef int i16v __attribute__((ext_vector_type(16)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef short s4 __attribute__((ext_vector_type(4)));
typedef _Float16 h8 __attribute__((ext_vector_type(8)));
typedef short s8 __attribute__((ext_vector_type(8)));
typedef int i2 __attribute__((ext_vector_type(2)));

// Every MFMA: each lane loads its elements of A and B in memory order (lane-major) and stores its part of D so.
#define MFMA(name, intrinsic, input, output, ...)                                             \
  extern "C" __global__ void __launch_bounds__(64) name(const input* a, const input* b, const output* c, output* d) { \
    int l = threadIdx.x;                                                                      \
    d[l] = __builtin_amdgcn_mfma_##intrinsic(a[l], b[l], c[l], ##__VA_ARGS__);                \
  }
MFMA(f32_32x32x1f32, f32_32x32x1f32, float, f32v, 0, 0, 0)
MFMA(f32_16x16x1f32, f32_16x16x1f32, float, f16v, 0, 0, 0)
MFMA(f32_4x4x1f32, f32_4x4x1f32, float, f4, 0, 0, 0)
MFMA(f32_32x32x2f32, f32_32x32x2f32, float, f16v, 0, 0, 0)
MFMA(f32_16x16x4f32, f32_16x16x4f32, float, f4, 0, 0, 0)
MFMA(f32_32x32x4f16, f32_32x32x4f16, h4, f32v, 0, 0, 0)
MFMA(f32_16x16x4f16, f32_16x16x4f16, h4, f16v, 0, 0, 0)
MFMA(f32_4x4x4f16, f32_4x4x4f16, h4, f4, 0, 0, 0)
MFMA(f32_32x32x8f16, f32_32x32x8f16, h4, f16v, 0, 0, 0)
MFMA(f32_16x16x16f16, f32_16x16x16f16, h4, f4, 0, 0, 0)
MFMA(f32_32x32x4bf16_1k, f32_32x32x4bf16_1k, s4, f32v, 0, 0, 0)
MFMA(f32_16x16x4bf16_1k, f32_16x16x4bf16_1k, s4, f16v, 0, 0, 0)
MFMA(f32_4x4x4bf16_1k, f32_4x4x4bf16_1k, s4, f4, 0, 0, 0)
MFMA(f32_32x32x8bf16_1k, f32_32x32x8bf16_1k, s4, f16v, 0, 0, 0)
MFMA(f32_16x16x16bf16_1k, f32_16x16x16bf16_1k, s4, f4, 0, 0, 0)
#ifndef __gfx90a__
MFMA(i32_32x32x16_i8, i32_32x32x16_i8, long, i16v, 0, 0, 0)
MFMA(i32_16x16x32_i8, i32_16x16x32_i8, long, i4, 0, 0, 0)
MFMA(f32_16x16x32_fp8_fp8, f32_16x16x32_fp8_fp8, long, f4, 0, 0, 0)
MFMA(f32_16x16x32_fp8_bf8, f32_16x16x32_fp8_bf8, long, f4, 0, 0, 0)
MFMA(f32_16x16x32_bf8_fp8, f32_16x16x32_bf8_fp8, long, f4, 0, 0, 0)
MFMA(f32_32x32x16_bf8_bf8, f32_32x32x16_bf8_bf8, long, f16v, 0, 0, 0)
MFMA(f32_32x32x16_fp8_fp8, f32_32x32x16_fp8_fp8, long, f16v, 0, 0, 0)
#endif
MFMA(i32_32x32x4i8, i32_32x32x4i8, int, i32v, 0, 0, 0)
MFMA(i32_16x16x4i8, i32_16x16x4i8, int, i16v, 0, 0, 0)
MFMA(i32_4x4x4i8, i32_4x4x4i8, int, i4, 0, 0, 0)
#ifdef __gfx942__
MFMA(f32_16x16x8_xf32, f32_16x16x8_xf32, f2, f4, 0, 0, 0)
MFMA(f32_32x32x4_xf32, f32_32x32x4_xf32, f2, f16v, 0, 0, 0)
#endif
MFMA(f64_16x16x4f64, f64_16x16x4f64, double, d4, 0, 0, 0)
MFMA(f64_4x4x4f64, f64_4x4x4f64, double, double, 0, 0, 0)

// Structured sparsity: half of A's columns, and their indices.
#define SMFMAC(name, a_type, b_type, output, ...)                                              \
  extern "C" __global__ void __launch_bounds__(64) sparse_##name(const a_type* a, const b_type* b, const int* indices, output* d) { \
    int l = threadIdx.x;                                                                      \
    d[l] = __builtin_amdgcn_smfmac_##name(a[l], b[l], d[l], indices[l], ##__VA_ARGS__);       \
  }
#ifndef __gfx90a__
SMFMAC(f32_16x16x32_f16, h4, h8, f4, 0, 2)
SMFMAC(f32_32x32x16_bf16, s4, s8, f16v, 0, 1)
SMFMAC(i32_16x16x64_i8, i2, i4, i4, 0, 0)
SMFMAC(f32_32x32x32_fp8_bf8, i2, i4, f16v, 0, 1)
#endif

extern "C" __global__ void broadcast_a(const float* a, const float* b, f32v* d) {  // CBSZ and ABID: block 1 of A for both
  d[threadIdx.x] = __builtin_amdgcn_mfma_f32_32x32x1f32(a[threadIdx.x], b[threadIdx.x], f32v{}, 1, 1, 0);
}

extern "C" __global__ void gemm_f32(const float* a, const float* b, float* c, int m, int n, int k) {  // 16 x 16 tiles
  __shared__ float ta[16][17], tb[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    ta[threadIdx.y][threadIdx.x] = row < m && k0 + threadIdx.x < k ? a[row * k + k0 + threadIdx.x] : 0;
    tb[threadIdx.y][threadIdx.x] = column < n && k0 + threadIdx.y < k ? b[(k0 + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void gemm_f16(const _Float16* a, const _Float16* b, _Float16* c, int n) {  // each work-item: 2 x 2
  __shared__ _Float16 ta[32][16], tb[16][32];
  int x = threadIdx.x, y = threadIdx.y;
  _Float16 sum[2][2] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = 0; i < 2; i++) {
      ta[y + 16 * i][x] = a[(blockIdx.y * 32 + y + 16 * i) * n + k0 + x];
      tb[y][x + 16 * i] = b[(k0 + y) * n + blockIdx.x * 32 + x + 16 * i];
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) sum[i][j] += ta[y + 16 * i][k] * tb[k][x + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) c[(blockIdx.y * 32 + y + 16 * i) * n + blockIdx.x * 32 + x + 16 * j] = sum[i][j];
}

extern "C" __global__ void __launch_bounds__(256) gemm_mfma(const _Float16* a, const _Float16* b, float* c, int n) {  // b transposed
  __shared__ _Float16 ta[64][36], tb[64][36];
  int t = threadIdx.x, lane = t & 63, wave = t >> 6, wr = wave >> 1, wc = wave & 1;
  f16v sum = {};
  for (int k0 = 0; k0 < n; k0 += 32) {
    for (int i = t; i < 64 * 8; i += 256) {
      int row = i / 8, column = i % 8 * 4;
      *(h4*)&ta[row][column] = *(const h4*)&a[(blockIdx.y * 64 + row) * n + k0 + column];
      *(h4*)&tb[row][column] = *(const h4*)&b[(blockIdx.x * 64 + row) * n + k0 + column];
    }
    __syncthreads();
    for (int k = 0; k < 32; k += 8) {
      h4 fa = *(h4*)&ta[wr * 32 + (lane & 31)][k + lane / 32 * 4], fb = *(h4*)&tb[wc * 32 + (lane & 31)][k + lane / 32 * 4];
      sum = __builtin_amdgcn_mfma_f32_32x32x8f16(fa, fb, sum, 0, 0, 0);
    }
    __syncthreads();
  }
  for (int i = 0; i < 16; i++) {
    int row = blockIdx.y * 64 + wr * 32 + 8 * (i / 4) + 4 * (lane / 32) + i % 4, column = blockIdx.x * 64 + wc * 32 + (lane & 31);
    c[row * n + column] = sum[i];
  }
}

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int n, int d, float scale) {
  extern __shared__ float scores[];
  __shared__ float part[128];
  int row = blockIdx.x, t = threadIdx.x;
  float largest = -INFINITY;
  for (int j = t; j <= row; j += 128) {  // causal
    float dot = 0;
    for (int i = 0; i < d; i++) dot += q[row * d + i] * k[j * d + i];
    scores[j] = dot * scale;
    largest = fmaxf(largest, scores[j]);
  }
  part[t] = largest;
  __syncthreads();
  for (int s = 64; s; s >>= 1) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();
  float sum = 0;
  for (int j = t; j <= row; j += 128) sum += scores[j] = __expf(scores[j] - largest);
  part[t] = sum;
  __syncthreads();
  for (int s = 64; s; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  for (int i = t; i < d; i += 128) {
    float x = 0;
    for (int j = 0; j <= row; j++) x += scores[j] * v[j * d + i];
    out[row * d + i] = x / part[0];
  }
}

extern "C" __global__ void __launch_bounds__(64) accumulators(const int* x, int* out) {  // accumulation VGPRs by hand
  int v = x[threadIdx.x], r, s;
  asm volatile(
      "v_accvgpr_write_b32 a3, %2\n"
      "v_accvgpr_write_b32 a200, 17\n"
      "s_nop 4\n"
      "v_accvgpr_mov_b32 a4, a3\n"
      "s_nop 4\n"
      "v_accvgpr_read_b32 %0, a4\n"
      "v_accvgpr_read_b32 %1, a200\n"
      "s_nop 4" : "=v"(r), "=v"(s) : "v"(v) : "a3", "a4", "a200");
  out[threadIdx.x] = r + s;
}

extern "C" __global__ void __launch_bounds__(64) accumulator_memory(const f4* x, f4* out) {  // loads and stores of accumulation VGPRs, LDS too
  __shared__ f4 shared[64];
  unsigned at = threadIdx.x * 16;
  const f4* from = x + threadIdx.x;
  f4* to = out + threadIdx.x;
  asm volatile(
      "global_load_dwordx4 a[8:11], %0, off\n"
      "s_waitcnt vmcnt(0)\n"
      "ds_write_b128 %2, a[8:11]\n"
      "s_waitcnt lgkmcnt(0)\n"
      "ds_read_b128 a[12:15], %2\n"
      "s_waitcnt lgkmcnt(0)\n"
      "global_store_dwordx4 %1, a[12:15], off\n"
      "s_waitcnt vmcnt(0)" : : "v"(from), "v"(to), "v"(at), "s"(shared) : "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "memory");
}

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(64, 64), amdgpu_num_vgpr(40))) pressure(const float* x, float* out) {
  float v[96];  // more than the VGPRs: spills to accumulation VGPRs or scratch
#pragma unroll
  for (int i = 0; i < 96; i++) v[i] = x[threadIdx.x * 96 + i];
  float acc = 1;
#pragma unroll 1
  for (int round = 0; round < 3; round++) {
#pragma unroll
    for (int i = 0; i < 96; i++) v[i] = v[i] * 0.5f + v[(i * 7 + 3) % 96];
    asm volatile("" ::: "memory");
  }
#pragma unroll
  for (int i = 0; i < 96; i++) acc += v[i];
  out[threadIdx.x] = acc;
}
