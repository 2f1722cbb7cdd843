#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>

typedef _Float16 h2 __attribute__((ext_vector_type(2)));
typedef short s2 __attribute__((ext_vector_type(2)));
typedef unsigned short u2 __attribute__((ext_vector_type(2)));
typedef float f2 __attribute__((ext_vector_type(2)));
typedef __bf16 b2 __attribute__((ext_vector_type(2)));

extern "C" __global__ void dots(const int* a, const int* b, const int* c, int* out, unsigned* uout, float* fout, const float* f) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_amdgcn_sdot4(a[i], b[i], c[i], false);
  out[i + n] = __builtin_amdgcn_sdot8(a[i], b[i], c[i], false);
  out[i + 2 * n] = __builtin_amdgcn_sdot2(__builtin_bit_cast(s2, a[i]), __builtin_bit_cast(s2, b[i]), c[i], false);
  out[i + 3 * n] = __builtin_amdgcn_sdot4(a[i], b[i], c[i] << 8, true);
  uout[i] = __builtin_amdgcn_udot4(a[i], b[i], c[i], false);
  uout[i + n] = __builtin_amdgcn_udot8(a[i], b[i], c[i], false);
  uout[i + 2 * n] = __builtin_amdgcn_udot2(__builtin_bit_cast(u2, a[i]), __builtin_bit_cast(u2, b[i]), c[i], false);
  h2 x = {(_Float16)(a[i] & 15), (_Float16)(a[i] >> 28)}, y = {(_Float16)(b[i] & 15), (_Float16)(b[i] >> 28)};
  fout[i] = __builtin_amdgcn_fdot2(x, y, f[i], false);
}

extern "C" __global__ void packed_halves(const h2* a, const h2* b, const h2* c, h2* out) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] + b[i];
  out[i + n] = a[i] * b[i];
  out[i + 2 * n] = __builtin_elementwise_fma(a[i], b[i], c[i]);
  out[i + 3 * n] = __builtin_elementwise_max(a[i], b[i]);
  out[i + 4 * n] = __builtin_elementwise_min(a[i], -b[i]);
  h2 t = a[i].yx * h2{b[i].x, -b[i].x};  // op_sel and negations
  out[i + 5 * n] = t - b[i].yy;
  out[i + 6 * n] = a[i] / b[i];
  out[i + 7 * n] = h2{(_Float16)__builtin_sqrtf16(a[i].x * a[i].x), (_Float16)__builtin_floorf16(a[i].y)};
}

extern "C" __global__ void packed_shorts(const s2* a, const s2* b, s2* out, const u2* c, u2* uout) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] + b[i];
  out[i + n] = a[i] - b[i];
  out[i + 2 * n] = a[i] * b[i] + a[i].yx;
  out[i + 3 * n] = __builtin_elementwise_max(a[i], b[i]);
  out[i + 4 * n] = __builtin_elementwise_min(a[i], b[i].yy);
  out[i + 5 * n] = a[i] >> (b[i] & 15);
  out[i + 6 * n] = a[i] << (b[i] & 15);
  out[i + 7 * n] = __builtin_elementwise_add_sat(a[i], b[i]);
  uout[i] = c[i] >> (c[i].yx & (unsigned short)15);
  uout[i + n] = __builtin_elementwise_max(c[i], c[i].yx);
  uout[i + 2 * n] = __builtin_elementwise_sub_sat(c[i], c[i].yx);
}

extern "C" __global__ void packed_floats(const f2* a, const f2* b, const f2* c, f2* out) {  // V_PK_*_F32
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] + b[i];
  out[i + n] = a[i] * b[i].yx;
  out[i + 2 * n] = __builtin_elementwise_fma(a[i], b[i], c[i]);
  out[i + 3 * n] = __builtin_elementwise_fma(-a[i].xx, b[i].yx, c[i] * 2.0f);
  out[i + 4 * n] = (a[i] - 1.0f) * f2{0.5f, 4.0f};
}

#if !defined(__gfx90a__) && !defined(__GFX10__)
extern "C" __global__ void eight_bit_floats(const float* a, const float* b, int* out, float* fout) {
  int i = threadIdx.x, n = blockDim.x;
  int fp8 = __builtin_amdgcn_cvt_pk_fp8_f32(a[i], b[i], 0, false), bf8 = __builtin_amdgcn_cvt_pk_bf8_f32(a[i], b[i], 0, false);
  fp8 = __builtin_amdgcn_cvt_pk_fp8_f32(b[i] * 2, a[i] * 2, fp8, true);
  bf8 = __builtin_amdgcn_cvt_pk_bf8_f32(b[i] * 2, a[i] * 2, bf8, true);
  out[i] = fp8;
  out[i + n] = bf8;
  fout[i] = __builtin_amdgcn_cvt_f32_fp8(fp8, 0);
  fout[i + n] = __builtin_amdgcn_cvt_f32_fp8(fp8, 3);
  fout[i + 2 * n] = __builtin_amdgcn_cvt_f32_bf8(bf8, 1);
  fout[i + 3 * n] = __builtin_amdgcn_cvt_f32_bf8(bf8, 2);
  f2 low = __builtin_amdgcn_cvt_pk_f32_fp8(fp8, false), high = __builtin_amdgcn_cvt_pk_f32_bf8(bf8, true);
  fout[i + 4 * n] = low.x + 3 * low.y;
  fout[i + 5 * n] = high.x + 3 * high.y;
}
#endif

extern "C" __global__ void brain_floats(const float* a, const float* b, __hip_bfloat16* out, float* fout) {
  int i = threadIdx.x, n = blockDim.x;
  __hip_bfloat16 x = __float2bfloat16(a[i]), y = __float2bfloat16(b[i]);
  out[i] = x;
  fout[i] = __bfloat162float(x) * __bfloat162float(y);
  __bf16 p = (__bf16)a[i], q = (__bf16)b[i];
  __bf16 s = p + q, m = p * q;
  fout[i + n] = (float)s;
  fout[i + 2 * n] = (float)m;
}

extern "C" __global__ void halves(const __half* a, const float* b, __half* out, float* fout, int* iout) {
  int i = threadIdx.x, n = blockDim.x;
  __half x = a[i];
  out[i] = __hadd(x, __float2half(b[i]));
  out[i + n] = __hmul(x, __float2half(b[i]));
  out[i + 2 * n] = __float2half(b[i] * 1000.0f);
  fout[i] = __half2float(x) + b[i];
  _Float16 h = (_Float16)b[i], g = (_Float16)(b[i] * 3);
  fout[i + n] = (float)h * (float)g + b[i];          // mixed precision: FMA_MIX
  fout[i + 2 * n] = __builtin_fmaf((float)h, (float)g, (float)h);
  out[i + 3 * n] = (_Float16)__builtin_fmaf((float)h, b[i], (float)g);
  iout[i] = (short)h + (unsigned short)(h * h) * 65536;
  iout[i + n] = (int)(_Float16)(short)(i * 37 - 1000);
}

extern "C" __global__ void conversions(const float* a, const float* b, unsigned* out, float* fout) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pkrtz(a[i], b[i]));
  out[i + n] = __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pknorm_i16(a[i] * 0.01f, b[i] * 0.01f));
  out[i + 2 * n] = __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pknorm_u16(a[i] * 0.01f, b[i] * 0.01f));
  out[i + 3 * n] = __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pk_i16((int)(a[i] * 1000), (int)b[i]));
  out[i + 4 * n] = __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pk_u16((unsigned)fabsf(a[i] * 1000), (unsigned)fabsf(b[i])));
  out[i + 5 * n] = __builtin_amdgcn_sad_u8(__float_as_uint(a[i]), __float_as_uint(b[i]), 7);
  out[i + 6 * n] = __builtin_amdgcn_ubfe(__float_as_uint(a[i]), i & 15, 11) + __builtin_amdgcn_sbfe((int)__float_as_uint(b[i]), i & 15, 7);
  out[i + 7 * n] = __builtin_amdgcn_lerp(__float_as_uint(a[i]), __float_as_uint(b[i]), 0x01010101u);
  fout[i] = __builtin_amdgcn_fmed3f(a[i], b[i], 0.5f);
  fout[i + n] = fminf(fminf(a[i], b[i]), -1.0f) + fmaxf(fmaxf(a[i], b[i]), 1.0f);
  fout[i + 2 * n] = __builtin_amdgcn_fractf(a[i]) + __builtin_amdgcn_ldexpf(b[i], i & 7);
  fout[i + 3 * n] = __builtin_amdgcn_frexp_mantf(a[i]) * 8 + __builtin_amdgcn_frexp_expf(b[i]);
  fout[i + 4 * n] = __saturatef(a[i]) + fminf(fmaxf(b[i] * 2.0f, 0.0f), 1.0f);  // clamp
  unsigned bytes = __float_as_uint(a[i]);
  fout[i + 5 * n] = (float)(bytes & 255) + 2.0f * (float)(bytes >> 8 & 255) + 4.0f * (float)(bytes >> 16 & 255) + 8.0f * (float)(bytes >> 24);
}
