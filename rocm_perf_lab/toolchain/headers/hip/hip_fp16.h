// Half precision on the compiler's own _Float16, for machines without ROCm: the functions that kernels commonly use,
// behind HIP's names. `__half` is the built-in type itself, so its operators are the compiler's.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/amd_detail/hip_fp16_math_fwd.h>
#include <hip/rocm_perf_lab_float16.h>

typedef _Float16 __half;
typedef __half half;
ROCM_PERF_LAB_PAIR(__half, __half2, rocm_perf_lab_half_vector)
typedef __half2 half2;
ROCM_PERF_LAB_ARITHMETIC(__half, __half2, rocm_perf_lab_half_vector)
ROCM_PERF_LAB_SHUFFLES(__half, __half2)
ROCM_PERF_LAB_INTEGERS(half, __half)
ROCM_PERF_LAB_ATOMIC(__half2, rocm_perf_lab_half_vector, rocm_perf_lab_half_vector, __builtin_amdgcn_flat_atomic_fadd_v2f16)
ROCM_PERF_LAB_SAFE_ATOMIC(__half2)

#define HIPRT_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define HIPRT_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define HIPRT_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define HIPRT_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define HIPRT_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define HIPRT_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
#define HIPRT_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)

// The same bits without arithmetic.
struct __half_raw {
  unsigned short x;
  ROCM_PERF_LAB_HD_MEMBER operator __half() const { return __builtin_bit_cast(__half, x); }
};
struct __half2_raw {
  unsigned short x, y;
  ROCM_PERF_LAB_HD_MEMBER operator __half2() const { return __half2(__builtin_bit_cast(__half, x), __builtin_bit_cast(__half, y)); }
};

// Conversions of one value. Those without a suffix round to nearest even, like those with _rn.
ROCM_PERF_LAB_HD __half __float2half(float a) { return (__half)a; }
ROCM_PERF_LAB_HD __half __float2half_rn(float a) { return (__half)a; }
static inline __attribute__((device)) __half __float2half_rz(float a) { return __ocml_cvtrtz_f16_f32(a); }
static inline __attribute__((device)) __half __float2half_rd(float a) { return __ocml_cvtrtn_f16_f32(a); }
static inline __attribute__((device)) __half __float2half_ru(float a) { return __ocml_cvtrtp_f16_f32(a); }
ROCM_PERF_LAB_HD __half __double2half(double a) { return (__half)a; }
ROCM_PERF_LAB_HD float __half2float(__half a) { return (float)a; }
ROCM_PERF_LAB_HD unsigned short __half_as_ushort(__half a) { return __builtin_bit_cast(unsigned short, a); }
ROCM_PERF_LAB_HD short __half_as_short(__half a) { return __builtin_bit_cast(short, a); }
ROCM_PERF_LAB_HD __half __ushort_as_half(unsigned short a) { return __builtin_bit_cast(__half, a); }
ROCM_PERF_LAB_HD __half __short_as_half(short a) { return __builtin_bit_cast(__half, a); }

// Pairs.
ROCM_PERF_LAB_HD __half2 make_half2(__half low, __half high) { return __half2(low, high); }
ROCM_PERF_LAB_HD __half2 __halves2half2(__half low, __half high) { return __half2(low, high); }
ROCM_PERF_LAB_HD __half2 __half2half2(__half a) { return __half2(a, a); }
ROCM_PERF_LAB_HD __half2 __float2half2_rn(float a) { return __half2((__half)a, (__half)a); }
ROCM_PERF_LAB_HD __half2 __floats2half2_rn(float low, float high) { return __half2((__half)low, (__half)high); }
ROCM_PERF_LAB_HD __half2 __float22half2_rn(float2 a) { return __half2((__half)a.x, (__half)a.y); }
ROCM_PERF_LAB_HD float2 __half22float2(__half2 a) { return make_float2((float)a.x, (float)a.y); }
ROCM_PERF_LAB_HD __half __low2half(__half2 a) { return a.x; }
ROCM_PERF_LAB_HD __half __high2half(__half2 a) { return a.y; }
ROCM_PERF_LAB_HD float __low2float(__half2 a) { return (float)a.x; }
ROCM_PERF_LAB_HD float __high2float(__half2 a) { return (float)a.y; }
ROCM_PERF_LAB_HD __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
ROCM_PERF_LAB_HD __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
ROCM_PERF_LAB_HD __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
ROCM_PERF_LAB_HD __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
ROCM_PERF_LAB_HD __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }

// Mathematics, one value and pairs.
#define ROCM_PERF_LAB_HALF_FUNCTION(NAME, NAME2, OCML)                                                              \
  static inline __attribute__((device)) __half NAME(__half a) { return OCML(a); }                                   \
  static inline __attribute__((device)) __half2 NAME2(__half2 a) { return __half2(OCML(a.x), OCML(a.y)); }
ROCM_PERF_LAB_HALF_FUNCTION(hceil, h2ceil, __ocml_ceil_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hcos, h2cos, __ocml_cos_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hexp, h2exp, __ocml_exp_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hexp10, h2exp10, __ocml_exp10_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hexp2, h2exp2, __ocml_exp2_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hfloor, h2floor, __ocml_floor_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hlog, h2log, __ocml_log_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hlog10, h2log10, __ocml_log10_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hlog2, h2log2, __ocml_log2_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hrint, h2rint, __ocml_rint_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hrsqrt, h2rsqrt, __ocml_rsqrt_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hsin, h2sin, __ocml_sin_f16)
ROCM_PERF_LAB_HALF_FUNCTION(hsqrt, h2sqrt, __ocml_sqrt_f16)
ROCM_PERF_LAB_HALF_FUNCTION(htanh, h2tanh, (__half)::tanhf)
ROCM_PERF_LAB_HALF_FUNCTION(htrunc, h2trunc, __ocml_trunc_f16)
static inline __attribute__((device)) __half hrcp(__half a) { return (__half)1 / a; }
static inline __attribute__((device)) __half2 h2rcp(__half2 a) { return __half2(hrcp(a.x), hrcp(a.y)); }
#undef ROCM_PERF_LAB_HALF_FUNCTION
