// bfloat16 on the compiler's own __bf16, for machines without ROCm: the functions that kernels commonly use, behind
// HIP's names. `__hip_bfloat16` is the built-in type itself, so its operators are the compiler's.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/rocm_perf_lab_bfloat16.h>
#include <hip/rocm_perf_lab_float16.h>

typedef __bf16 __hip_bfloat16;
ROCM_PERF_LAB_PAIR(__hip_bfloat16, __hip_bfloat162, rocm_perf_lab_bfloat_vector)
ROCM_PERF_LAB_ARITHMETIC(__hip_bfloat16, __hip_bfloat162, rocm_perf_lab_bfloat_vector)
ROCM_PERF_LAB_SHUFFLES(__hip_bfloat16, __hip_bfloat162)
ROCM_PERF_LAB_INTEGERS(bfloat16, __hip_bfloat16)
typedef short rocm_perf_lab_short_vector __attribute__((ext_vector_type(2)));
ROCM_PERF_LAB_ATOMIC(__hip_bfloat162, rocm_perf_lab_bfloat_vector, rocm_perf_lab_short_vector,
                     __builtin_amdgcn_flat_atomic_fadd_v2bf16)
ROCM_PERF_LAB_SAFE_ATOMIC(__hip_bfloat162)

#define HIPRT_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define HIPRT_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define HIPRT_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define HIPRT_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define HIPRT_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define HIPRT_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
#define HIPRT_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)

// The same bits without arithmetic.
struct __hip_bfloat16_raw {
  unsigned short x;
  ROCM_PERF_LAB_HD_MEMBER operator __hip_bfloat16() const { return __builtin_bit_cast(__hip_bfloat16, x); }
};
struct __hip_bfloat162_raw {
  unsigned short x, y;
  ROCM_PERF_LAB_HD_MEMBER operator __hip_bfloat162() const {
    return {__builtin_bit_cast(__hip_bfloat16, x), __builtin_bit_cast(__hip_bfloat16, y)};
  }
};

// Conversions of one value; from float they round to nearest even.
ROCM_PERF_LAB_HD __hip_bfloat16 __float2bfloat16(float a) { return (__hip_bfloat16)a; }
ROCM_PERF_LAB_HD __hip_bfloat16 __float2bfloat16_rn(float a) { return (__hip_bfloat16)a; }
// Towards zero, down and up: the truncated value, or its neighbour on the side of `a`.
ROCM_PERF_LAB_HD __hip_bfloat16 __float2bfloat16_rz(float a) {
  return a != a ? (__hip_bfloat16)a
                : __builtin_bit_cast(__hip_bfloat16, (unsigned short)(__builtin_bit_cast(unsigned int, a) >> 16));
}
ROCM_PERF_LAB_HD __hip_bfloat16 rocm_perf_lab_away_from_zero(float a) {
  const unsigned int bits = __builtin_bit_cast(unsigned int, a);
  return a != a || a - a != 0 ? (__hip_bfloat16)a
                              : __builtin_bit_cast(__hip_bfloat16, (unsigned short)((bits + 0xffff) >> 16));
}
ROCM_PERF_LAB_HD __hip_bfloat16 __float2bfloat16_rd(float a) {
  return a < 0 ? rocm_perf_lab_away_from_zero(a) : __float2bfloat16_rz(a);
}
ROCM_PERF_LAB_HD __hip_bfloat16 __float2bfloat16_ru(float a) {
  return a > 0 ? rocm_perf_lab_away_from_zero(a) : __float2bfloat16_rz(a);
}
ROCM_PERF_LAB_HD __hip_bfloat16 __double2bfloat16(double a) { return (__hip_bfloat16)(float)a; }
ROCM_PERF_LAB_HD float __bfloat162float(__hip_bfloat16 a) { return (float)a; }
ROCM_PERF_LAB_HD unsigned short __bfloat16_as_ushort(__hip_bfloat16 a) { return __builtin_bit_cast(unsigned short, a); }
ROCM_PERF_LAB_HD short __bfloat16_as_short(__hip_bfloat16 a) { return __builtin_bit_cast(short, a); }
ROCM_PERF_LAB_HD __hip_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __builtin_bit_cast(__hip_bfloat16, a); }
ROCM_PERF_LAB_HD __hip_bfloat16 __short_as_bfloat16(short a) { return __builtin_bit_cast(__hip_bfloat16, a); }

// Pairs.
ROCM_PERF_LAB_HD __hip_bfloat162 make_bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) { return {low, high}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) { return {low, high}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 a) { return {a, a}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __float2bfloat162_rn(float a) { return {(__hip_bfloat16)a, (__hip_bfloat16)a}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {(__hip_bfloat16)low, (__hip_bfloat16)high};
}
ROCM_PERF_LAB_HD __hip_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
ROCM_PERF_LAB_HD float2 __bfloat1622float2(__hip_bfloat162 a) { return make_float2((float)a.x, (float)a.y); }
ROCM_PERF_LAB_HD __hip_bfloat16 __low2bfloat16(__hip_bfloat162 a) { return a.x; }
ROCM_PERF_LAB_HD __hip_bfloat16 __high2bfloat16(__hip_bfloat162 a) { return a.y; }
ROCM_PERF_LAB_HD __hip_bfloat162 __low2bfloat162(__hip_bfloat162 a) { return {a.x, a.x}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __high2bfloat162(__hip_bfloat162 a) { return {a.y, a.y}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.x, b.x}; }
ROCM_PERF_LAB_HD __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.y, b.y}; }
ROCM_PERF_LAB_HD float __low2float(__hip_bfloat162 a) { return (float)a.x; }
ROCM_PERF_LAB_HD float __high2float(__hip_bfloat162 a) { return (float)a.y; }
ROCM_PERF_LAB_HD __hip_bfloat162 __lowhigh2highlow(__hip_bfloat162 a) { return {a.y, a.x}; }

// Mathematics goes through float, as bfloat16 has no instructions of its own for it.
#define ROCM_PERF_LAB_BFLOAT_FUNCTION(NAME, NAME2, FLOAT)                                                           \
  static inline __attribute__((device)) __hip_bfloat16 NAME(__hip_bfloat16 a) { return (__hip_bfloat16)FLOAT(a); }  \
  static inline __attribute__((device)) __hip_bfloat162 NAME2(__hip_bfloat162 a) { return {NAME(a.x), NAME(a.y)}; }
ROCM_PERF_LAB_BFLOAT_FUNCTION(hceil, h2ceil, ceilf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hcos, h2cos, cosf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hexp, h2exp, expf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hexp2, h2exp2, exp2f)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hexp10, h2exp10, exp10f)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hfloor, h2floor, floorf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hlog, h2log, logf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hlog10, h2log10, log10f)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hlog2, h2log2, log2f)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hrcp, h2rcp, 1.0f / (float))
ROCM_PERF_LAB_BFLOAT_FUNCTION(hrint, h2rint, rintf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hrsqrt, h2rsqrt, rsqrtf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hsin, h2sin, sinf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(hsqrt, h2sqrt, sqrtf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(htanh, h2tanh, tanhf)
ROCM_PERF_LAB_BFLOAT_FUNCTION(htrunc, h2trunc, truncf)
#undef ROCM_PERF_LAB_BFLOAT_FUNCTION
