#include <hip/hip_runtime.h>

typedef float f2 __attribute__((ext_vector_type(2)));
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef float f32v __attribute__((ext_vector_type(32)));
typedef int i2 __attribute__((ext_vector_type(2)));
typedef int i3 __attribute__((ext_vector_type(3)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef int i8v __attribute__((ext_vector_type(8)));
typedef int i16v __attribute__((ext_vector_type(16)));
typedef unsigned u2v __attribute__((ext_vector_type(2)));
typedef unsigned u6v __attribute__((ext_vector_type(6)));
typedef short s2 __attribute__((ext_vector_type(2)));
typedef short s4 __attribute__((ext_vector_type(4)));
typedef _Float16 h2 __attribute__((ext_vector_type(2)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef _Float16 h8 __attribute__((ext_vector_type(8)));
typedef _Float16 h16v __attribute__((ext_vector_type(16)));
typedef _Float16 h32v __attribute__((ext_vector_type(32)));
typedef __bf16 b2 __attribute__((ext_vector_type(2)));
typedef __bf16 b8 __attribute__((ext_vector_type(8)));
typedef __bf16 b16v __attribute__((ext_vector_type(16)));
#define SHARED __attribute__((address_space(3)))
#define GLOBAL __attribute__((address_space(1)))

#ifdef __gfx950__
#define MFMA(name, input, output)                                                                   \
  extern "C" __global__ void __launch_bounds__(64) name(const input* a, const input* b, const output* c, output* d) { \
    int l = threadIdx.x;                                                                            \
    d[l] = __builtin_amdgcn_mfma_##name(a[l], b[l], c[l], 0, 0, 0);                                 \
  }
MFMA(f32_16x16x32_f16, h8, f4)
MFMA(f32_16x16x32_bf16, b8, f4)
MFMA(f32_32x32x16_f16, h8, f16v)
MFMA(f32_32x32x16_bf16, b8, f16v)
MFMA(i32_16x16x64_i8, i4, i4)
MFMA(i32_32x32x32_i8, i4, i16v)

#define SMFMAC(name, a_type, b_type, output, ...)                                              \
  extern "C" __global__ void __launch_bounds__(64) sparse_##name(const a_type* a, const b_type* b, const int* indices, output* d) { \
    int l = threadIdx.x;                                                                      \
    d[l] = __builtin_amdgcn_smfmac_##name(a[l], b[l], d[l], indices[l], ##__VA_ARGS__);       \
  }
SMFMAC(f32_16x16x64_f16, h8, h16v, f4, 0, 1)
SMFMAC(f32_32x32x32_bf16, b8, b16v, f16v, 0, 0)
SMFMAC(i32_16x16x128_i8, i4, i8v, i4, 0, 0)
SMFMAC(f32_32x32x64_fp8_bf8, i4, i8v, f16v, 0, 0)

// Rows of A and B of 128 (or 64) values in 8, 6 or 4 bits, with one exponent per 32 of them: 16 x 16 and 32 x 32 products.
// Lane l has row l % rows; 8-bit values come in two pieces of 16, the others in one of 32.
#define BITS(format) ((format) < 2 ? 8 : (format) < 4 ? 6 : 4)
template <int FORMAT, int ROWS>
__device__ i8v narrow_row(const unsigned* matrix, int depth, int k0) {
  constexpr int bits = BITS(FORMAT);
  int l = threadIdx.x, row = l % ROWS, group = l / ROWS;
  const unsigned* words = matrix + (row * depth + k0) * bits / 32;
  i8v value = {};
  if constexpr (bits == 8) {
    for (int n = 0; n < 4; n++) value[n] = words[group * 4 + n];
    for (int n = 0; n < 4; n++) value[4 + n] = words[(ROWS == 16 ? 16 : 8) + group * 4 + n];
  } else {
    for (int n = 0; n < bits; n++) value[n] = words[group * bits + n];
  }
  return value;
}
template <int A, int B>
__device__ void scaled_16(const unsigned* a, const unsigned* b, const unsigned char* ea, const unsigned char* eb, float* c, int depth) {
  int l = threadIdx.x;
  f4 sum = {};
  for (int k = 0; k < depth; k += 128) {
    int scale_a = ea[(l % 16) * (depth / 32) + k / 32 + l / 16] << 8, scale_b = eb[(l % 16) * (depth / 32) + k / 32 + l / 16];
    sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(narrow_row<A, 16>(a, depth, k), narrow_row<B, 16>(b, depth, k), sum, A, B, 1, scale_a, 0, scale_b);
  }
  for (int i = 0; i < 4; i++) c[(4 * (l / 16) + i) * 16 + l % 16] = sum[i];
}
template <int A, int B>
__device__ void scaled_32(const unsigned* a, const unsigned* b, const unsigned char* ea, const unsigned char* eb, float* c, int depth) {
  int l = threadIdx.x;
  f16v sum = {};
  for (int k = 0; k < depth; k += 64) {
    int scale_a = ea[(l % 32) * (depth / 32) + k / 32 + l / 32] << 16, scale_b = eb[(l % 32) * (depth / 32) + k / 32 + l / 32] << 24;
    sum = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(narrow_row<A, 32>(a, depth, k), narrow_row<B, 32>(b, depth, k), sum, A, B, 2, scale_a, 3, scale_b);
  }
  for (int i = 0; i < 16; i++) c[(8 * (i / 4) + 4 * (l / 32) + i % 4) * 32 + l % 32] = sum[i];
}
#define SCALED(edge, a_name, b_name, a_code, b_code)                                                                             \
  extern "C" __global__ void __launch_bounds__(64) scaled_##edge##_##a_name##_##b_name(                                          \
      const unsigned* a, const unsigned* b, const unsigned char* ea, const unsigned char* eb, float* c, int depth) {             \
    scaled_##edge<a_code, b_code>(a, b, ea, eb, c, depth);                                                                       \
  }
SCALED(16, fp8, fp8, 0, 0)
SCALED(16, bf8, fp4, 1, 4)
SCALED(16, fp6, bf6, 2, 3)
SCALED(16, fp4, fp4, 4, 4)
SCALED(32, fp8, fp4, 0, 4)
SCALED(32, bf8, bf8, 1, 1)
SCALED(32, bf6, fp6, 3, 2)
SCALED(32, fp4, fp4, 4, 4)

extern "C" __global__ void large_lds(const int* in, int* out, int n) {  // all 160 KB in one array
  __shared__ int all[40960];
  for (int i = threadIdx.x; i < 40960; i += blockDim.x) all[i] = in[i] + i;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = all[40959 - i * 7] ^ all[i * 11];
}

extern "C" __global__ void large_dynamic_lds(const long long* in, long long* out, int n) {
  extern __shared__ long long dynamic[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[n - 1 - i] = in[i];
  __syncthreads();
  atomicAdd((unsigned long long*)&dynamic[n - 1], 5ull);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = dynamic[i];
}

extern "C" __global__ void __launch_bounds__(64) transposing_reads(const s4* in, s4* out, i2* out8, i2* out4, i3* out6) {
  __shared__ s4 tile[64];
  __shared__ i3 six[64];
  int l = threadIdx.x;
  tile[l] = in[l];
  six[l] = i3{((const int*)in)[l], ((const int*)in)[l + 1], ((const int*)in)[l + 2]};
  __syncthreads();
  out[l] = __builtin_amdgcn_ds_read_tr16_b64_v4i16((SHARED s4*)&tile[l]);
  out8[l] = __builtin_amdgcn_ds_read_tr8_b64_v2i32((SHARED i2*)&tile[l]);
  out4[l] = __builtin_amdgcn_ds_read_tr4_b64_v2i32((SHARED i2*)&tile[l]);
  (void)out6;
}

extern "C" __global__ void __launch_bounds__(64) transposed_gemm(const _Float16* a, const _Float16* b, float* c, int k) {  // b is k x 16
  __shared__ _Float16 tile[32][16];
  int l = threadIdx.x;
  f4 sum = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    *(h8*)&tile[l / 2][l % 2 * 8] = *(const h8*)&b[(k0 + l / 2) * 16 + l % 2 * 8];
    __syncthreads();
    h8 row = *(const h8*)&a[(l % 16) * k + k0 + l / 16 * 8], column;
    for (int part = 0; part < 2; part++) {  // 16 lanes read four rows of 16 halves, in pieces of four
      s4 piece = __builtin_amdgcn_ds_read_tr16_b64_v4i16((SHARED s4*)&tile[l / 16 * 8 + part * 4 + l % 16 / 4][l % 4 * 4]);
      h4 halves = __builtin_bit_cast(h4, piece);
      for (int i = 0; i < 4; i++) column[part * 4 + i] = halves[i];
    }
    sum = __builtin_amdgcn_mfma_f32_16x16x32_f16(row, column, sum, 0, 0, 0);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) c[(4 * (l / 16) + i) * 16 + l % 16] = sum[i];
}

extern "C" __global__ void wide_loads_to_lds(const int* in, int* out) {  // 16 and 12 bytes per lane
  __shared__ int tile[4 * 256 + 4 * 256];  // 12 bytes are 16 bytes apart
  int t = threadIdx.x, first = t / 64 * 64;
  __builtin_amdgcn_global_load_lds((GLOBAL void*)(in + 4 * t), (SHARED void*)(tile + 4 * first), 16, 0, 0);
  __builtin_amdgcn_global_load_lds((GLOBAL void*)(in + 1024 + 3 * t), (SHARED void*)(tile + 1024 + 4 * first), 12, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0f70);
  __syncthreads();
  for (int n = 0; n < 4; n++) out[n * 256 + t] = tile[1023 - (n * 256 + t)];
  for (int n = 0; n < 3; n++) out[1024 + n * 256 + t] = tile[1024 + 4 * t + 2 - n];
}

extern "C" __global__ void wide_buffer_loads_to_lds(const int* in, int* out) {
  __shared__ int tile[4 * 256];
  int t = threadIdx.x, first = t / 64 * 64;
  __amdgpu_buffer_rsrc_t resource = __builtin_amdgcn_make_buffer_rsrc((void*)in, 0, 4096 - 48, 0x00020000);
  __builtin_amdgcn_raw_ptr_buffer_load_lds(resource, (SHARED void*)(tile + 4 * first), 16, t * 16, 0, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0f70);
  __syncthreads();
  for (int n = 0; n < 4; n++) out[n * 256 + t] = tile[n * 256 + 255 - t];
}

extern "C" __global__ void __launch_bounds__(64) lane_swaps(const unsigned* a, const unsigned* b, u2v* out) {
  int l = threadIdx.x;
  auto sixteen = __builtin_amdgcn_permlane16_swap(a[l], b[l], false, false);
  auto thirty_two = __builtin_amdgcn_permlane32_swap(a[l], b[l], false, false);
  out[l] = u2v{sixteen[0], sixteen[1]};
  out[l + 64] = u2v{thirty_two[0], thirty_two[1]};
}

extern "C" __global__ void __launch_bounds__(64) swap_reduction(const float* x, float* out) {
  int l = threadIdx.x;
  unsigned bits = __float_as_uint(x[l]);
  auto pair = __builtin_amdgcn_permlane32_swap(bits, bits, false, false);
  bits = __float_as_uint(__uint_as_float(pair[0]) + __uint_as_float(pair[1]));
  pair = __builtin_amdgcn_permlane16_swap(bits, bits, false, false);
  float sum = __uint_as_float(pair[0]) + __uint_as_float(pair[1]);
  for (int s = 8; s; s >>= 1) sum += __shfl_xor(sum, s);
  out[l] = sum;
}

extern "C" __global__ void random_bits(const unsigned* seeds, unsigned* out, int rounds) {
  unsigned x = seeds[threadIdx.x];
  for (int i = 0; i < rounds; i++) x = __builtin_amdgcn_prng_b32(x);
  out[threadIdx.x] = x;
}

extern "C" __global__ void tables_of_bits(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, unsigned short* out16) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_bitop3_b32(a[i], b[i], c[i], 0xCA);
  out[i + n] = __builtin_amdgcn_bitop3_b32(a[i], b[i], c[i], 0x17);
  out[i + 2 * n] = (a[i] & b[i]) | (~a[i] & ~c[i]);  // combined by the compiler
  out16[i] = __builtin_amdgcn_bitop3_b16((short)a[i], (short)b[i], (short)c[i], 0x69);
}

extern "C" __global__ void saturated_shifts(const int* a, const int* b, const int* c, unsigned short* out) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_ashr_pk_i8_i32(a[i], b[i], c[i] & 31);
  out[i + n] = __builtin_amdgcn_ashr_pk_u8_i32(a[i], b[i], c[i] & 31);
}

extern "C" __global__ void pairs_of_brain_floats(const b2* a, const b2* b, const float* c, float* out, b2* rounded, h2* halves, const f2* f) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_fdot2_f32_bf16(a[i], b[i], c[i], false);
  float sum = c[i];
  asm volatile("v_dot2c_f32_bf16 %0, %1, %2" : "+v"(sum) : "v"(a[i]), "v"(b[i]));
  out[i + n] = sum;
  rounded[i] = __builtin_convertvector(f[i], b2);   // V_CVT_PK_BF16_F32
  halves[i] = __builtin_convertvector(f[i], h2);    // V_CVT_PK_F16_F32
}

typedef __attribute__((address_space(1))) s2 global_pair;
extern "C" __global__ void pair_atomics(s2* cell, const s2* x, b2* returned) {
  int i = threadIdx.x;
  __builtin_amdgcn_global_atomic_fadd_v2bf16((global_pair*)cell, x[i]);
  __builtin_amdgcn_flat_atomic_fadd_v2bf16(cell + 1, x[i]);
  __shared__ s2 local;
  if (i == 0) local = s2{0, 0};
  __syncthreads();
  __builtin_amdgcn_ds_atomic_fadd_v2bf16((SHARED s2*)&local, x[i]);
  __syncthreads();
  if (i == 0) cell[2] = local;
}

// Conversions with the exponent of a scale.
extern "C" __global__ void widened(const unsigned* x, const float* scale, f2* out, h2* halves, b2* brains) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_cvt_scalef32_pk_f32_fp8(x[i], scale[i], true);
  out[i + n] = __builtin_amdgcn_cvt_scalef32_pk_f32_bf8(x[i], scale[i], false);
  out[i + 2 * n] = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(x[i], scale[i], 3);
  out[i + 3 * n] = f2{__builtin_amdgcn_cvt_scalef32_f32_fp8(x[i], scale[i], 2), __builtin_amdgcn_cvt_scalef32_f32_bf8(x[i], scale[i], 1)};
  halves[i] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(x[i], scale[i], false);
  halves[i + n] = __builtin_amdgcn_cvt_scalef32_pk_f16_fp4(x[i], scale[i], 1);
  brains[i] = __builtin_amdgcn_cvt_scalef32_pk_bf16_bf8(x[i], scale[i], true);
  brains[i + n] = __builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(x[i], scale[i], 2);
}

extern "C" __global__ void widened_rows(const u6v* x, const float* scale, f32v* out, h32v* halves) {  // 32 values of 6 bits
  int i = threadIdx.x;
  out[i] = __builtin_amdgcn_cvt_scalef32_pk32_f32_fp6(x[i], scale[i]);
  halves[i] = __builtin_amdgcn_cvt_scalef32_pk32_f16_bf6(x[i], scale[i]);
}

extern "C" __global__ void narrowed(const float* a, const float* b, const float* scale, s2* out, unsigned* four) {
  int i = threadIdx.x, n = blockDim.x;
  s2 old = {0x1234, 0x5678};
  out[i] = __builtin_amdgcn_cvt_scalef32_pk_fp8_f32(old, a[i], b[i], scale[i], true);
  out[i + n] = __builtin_amdgcn_cvt_scalef32_pk_bf8_f32(old, a[i], b[i], scale[i], false);
  four[i] = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0x12345678, a[i], b[i], scale[i], 2);
}

extern "C" __global__ void narrowed_rows(const f16v* a, const f16v* b, const float* scale, u6v* out, const h32v* halves) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_cvt_scalef32_2xpk16_fp6_f32(a[i], b[i], scale[i]);
  out[i + n] = __builtin_amdgcn_cvt_scalef32_pk32_bf6_f16(halves[i], scale[i]);
}

// Stochastic rounding: values that are exact in the target stay, whatever the random bits.
extern "C" __global__ void rounded_at_random(const float* x, const unsigned* noise, unsigned* out, h2* halves, b2* brains) {
  int i = threadIdx.x;
  out[i] = __builtin_amdgcn_cvt_sr_fp8_f32(x[i], noise[i], 0, 1);
  halves[i] = __builtin_amdgcn_cvt_sr_f16_f32(h2{1, 2}, x[i], noise[i], false);
  brains[i] = __builtin_amdgcn_cvt_sr_bf16_f32(b2{1, 2}, x[i], noise[i], true);
}
#endif

// IEEE 754-2019 extremes, NaN if one operand is: V_MINIMUM3 and V_MAXIMUM3 of gfx950, several instructions elsewhere.
extern "C" __global__ void extremes(const float* a, const float* b, const float* c, float* out, const h2* x, const h2* y, h2* out2) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_elementwise_minimum(__builtin_elementwise_minimum(a[i], b[i]), c[i]);
  out[i + n] = __builtin_elementwise_maximum(__builtin_elementwise_maximum(a[i], b[i]), c[i]);
  out[i + 2 * n] = __builtin_elementwise_minimum(a[i], __builtin_elementwise_maximum(b[i], c[i]));
  out2[i] = __builtin_elementwise_minimum(__builtin_elementwise_minimum(x[i], y[i]), x[i].yx);
  out2[i + n] = __builtin_elementwise_maximum(__builtin_elementwise_maximum(x[i], y[i]), y[i].yx);
}
