// 8-bit floats for machines without ROCm. The kinds of CDNA3 ("fnuz": no infinities, one NaN, no negative zero) are on its
// conversion instructions; elsewhere, and in host code, they are computed, like those of the OCP.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;

enum __hip_saturation_t { __HIP_NOSAT, __HIP_SATFINITE };
enum __hip_fp8_interpretation_t { __HIP_E4M3 = 0, __HIP_E5M2 = 1, __HIP_E4M3_FNUZ = 2, __HIP_E5M2_FNUZ = 3 };

#define ROCM_PERF_LAB_HD static inline __attribute__((host, device, always_inline))

// Processors whose conversion instructions have the kinds without infinities; later ones have those of the OCP, earlier ones none.
#if defined(__HIP_DEVICE_COMPILE__) && __has_builtin(__builtin_amdgcn_cvt_pk_fp8_f32) && \
    !__has_builtin(__builtin_amdgcn_cvt_scalef32_pk_fp8_f32)
#define ROCM_PERF_LAB_HAS_FNUZ 1
#else
#define ROCM_PERF_LAB_HAS_FNUZ 0
#endif

ROCM_PERF_LAB_HD bool rocm_perf_lab_is_e4m3(__hip_fp8_interpretation_t kind) { return kind == __HIP_E4M3 || kind == __HIP_E4M3_FNUZ; }
ROCM_PERF_LAB_HD bool rocm_perf_lab_is_fnuz(__hip_fp8_interpretation_t kind) {
  return kind == __HIP_E4M3_FNUZ || kind == __HIP_E5M2_FNUZ;
}

// To nearest even. The significand is scaled to a whole number of units in the last place: the code is then that number
// plus the exponent, and a carry of the rounding goes into the exponent by itself.
ROCM_PERF_LAB_HD __hip_fp8_storage_t rocm_perf_lab_float_to_code(float a, __hip_saturation_t saturation,
                                                                __hip_fp8_interpretation_t kind) {
  const bool is_e4m3 = rocm_perf_lab_is_e4m3(kind), is_fnuz = rocm_perf_lab_is_fnuz(kind);
  const int mantissa = is_e4m3 ? 3 : 2, bias = (is_e4m3 ? 7 : 15) + is_fnuz;
  const int largest = is_fnuz ? 0x7f : is_e4m3 ? 0x7e : 0x7b, above = is_fnuz ? 0x80 : is_e4m3 ? 0x7f : 0x7c;
  const unsigned int bits = __builtin_bit_cast(unsigned int, a), sign = bits >> 31 << 7;
  if (a != a) return is_fnuz ? 0x80 : sign | 0x7f;
  int exponent = (int)(bits >> 23 & 0xff) - 127;
  if (exponent < 1 - bias) exponent = 1 - bias;
  int code = largest + 1;
  if (exponent <= bias + 1) code = (int)rintf(ldexpf(fabsf(a), mantissa - exponent)) + ((exponent + bias - 1) << mantissa);
  if (code > largest) code = saturation == __HIP_SATFINITE ? largest : above;
  return is_fnuz && !code ? 0 : sign | code;
}

ROCM_PERF_LAB_HD float rocm_perf_lab_code_to_float(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
  const bool is_e4m3 = rocm_perf_lab_is_e4m3(kind), is_fnuz = rocm_perf_lab_is_fnuz(kind);
  const int mantissa = is_e4m3 ? 3 : 2, bias = (is_e4m3 ? 7 : 15) + is_fnuz;
  const int magnitude = a & 0x7f, exponent = magnitude >> mantissa, fraction = magnitude & ((1 << mantissa) - 1);
  if (is_fnuz && a == 0x80) return __builtin_nanf("");
  float value = exponent ? ldexpf((float)(fraction + (1 << mantissa)), exponent - bias - mantissa)
                         : ldexpf((float)fraction, 1 - bias - mantissa);
  if (!is_fnuz && (is_e4m3 ? magnitude == 0x7f : magnitude > 0x7c)) value = __builtin_nanf("");
  else if (!is_fnuz && !is_e4m3 && magnitude == 0x7c) value = __builtin_inff();
  return a & 0x80 ? -value : value;
}

// Finite values beyond the range saturate or become NaN (infinity in E5M2 of the OCP); NaN stays NaN.
ROCM_PERF_LAB_HD __hip_fp8_storage_t __hip_cvt_float_to_fp8(float a, __hip_saturation_t saturation,
                                                           __hip_fp8_interpretation_t kind) {
#if ROCM_PERF_LAB_HAS_FNUZ
  if (rocm_perf_lab_is_fnuz(kind)) {
    const float largest = kind == __HIP_E4M3_FNUZ ? 240.0f : 57344.0f;
    if (saturation == __HIP_SATFINITE && a == a) a = __builtin_amdgcn_fmed3f(a, largest, -largest);
    return kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_pk_fp8_f32(a, a, 0, false) & 0xff
                                   : __builtin_amdgcn_cvt_pk_bf8_f32(a, a, 0, false) & 0xff;
  }
#endif
  return rocm_perf_lab_float_to_code(a, saturation, kind);
}

ROCM_PERF_LAB_HD float rocm_perf_lab_fp8_to_float(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
#if ROCM_PERF_LAB_HAS_FNUZ
  if (rocm_perf_lab_is_fnuz(kind))
    return kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_f32_fp8(a, 0) : __builtin_amdgcn_cvt_f32_bf8(a, 0);
#endif
  return rocm_perf_lab_code_to_float(a, kind);
}

ROCM_PERF_LAB_HD __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 a, __hip_saturation_t saturation,
                                                                 __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float_to_fp8(a.x, saturation, kind) | __hip_cvt_float_to_fp8(a.y, saturation, kind) << 8;
}
ROCM_PERF_LAB_HD float2 rocm_perf_lab_fp8x2_to_float2(__hip_fp8x2_storage_t a, __hip_fp8_interpretation_t kind) {
  return make_float2(rocm_perf_lab_fp8_to_float(a & 0xff, kind), rocm_perf_lab_fp8_to_float(a >> 8, kind));
}

// Each 16-bit kind is exact in single precision.
ROCM_PERF_LAB_HD float2 rocm_perf_lab_floats(__half2 a) { return make_float2((float)a.x, (float)a.y); }
ROCM_PERF_LAB_HD float2 rocm_perf_lab_floats(__hip_bfloat162 a) { return make_float2((float)a.x, (float)a.y); }
ROCM_PERF_LAB_HD float2 rocm_perf_lab_floats(__half2_raw a) {
  return make_float2((float)__builtin_bit_cast(__half, a.x), (float)__builtin_bit_cast(__half, a.y));
}
ROCM_PERF_LAB_HD float2 rocm_perf_lab_floats(__hip_bfloat162_raw a) {
  return make_float2((float)__builtin_bit_cast(__hip_bfloat16, a.x), (float)__builtin_bit_cast(__hip_bfloat16, a.y));
}

#define ROCM_PERF_LAB_TO_FP8(RESULT, NAME, TYPE, CONVERT, VALUE)                                                      \
  ROCM_PERF_LAB_HD RESULT NAME(TYPE a, __hip_saturation_t saturation, __hip_fp8_interpretation_t kind) {              \
    return CONVERT(VALUE, saturation, kind);                                                                          \
  }
ROCM_PERF_LAB_TO_FP8(__hip_fp8_storage_t, __hip_cvt_double_to_fp8, double, __hip_cvt_float_to_fp8, (float)a)
ROCM_PERF_LAB_TO_FP8(__hip_fp8_storage_t, __hip_cvt_halfraw_to_fp8, __half_raw, __hip_cvt_float_to_fp8,
                     (float)__builtin_bit_cast(__half, a.x))
ROCM_PERF_LAB_TO_FP8(__hip_fp8_storage_t, __hip_cvt_bfloat16raw_to_fp8, __hip_bfloat16_raw, __hip_cvt_float_to_fp8,
                     (float)__builtin_bit_cast(__hip_bfloat16, a.x))
ROCM_PERF_LAB_TO_FP8(__hip_fp8x2_storage_t, __hip_cvt_double2_to_fp8x2, double2, __hip_cvt_float2_to_fp8x2,
                     make_float2((float)a.x, (float)a.y))
ROCM_PERF_LAB_TO_FP8(__hip_fp8x2_storage_t, __hip_cvt_halfraw2_to_fp8x2, __half2_raw, __hip_cvt_float2_to_fp8x2,
                     rocm_perf_lab_floats(a))
ROCM_PERF_LAB_TO_FP8(__hip_fp8x2_storage_t, __hip_cvt_bfloat16raw2_to_fp8x2, __hip_bfloat162_raw, __hip_cvt_float2_to_fp8x2,
                     rocm_perf_lab_floats(a))
#undef ROCM_PERF_LAB_TO_FP8

ROCM_PERF_LAB_HD __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
  return {__builtin_bit_cast(unsigned short, (__half)rocm_perf_lab_fp8_to_float(a, kind))};
}
ROCM_PERF_LAB_HD __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t a, __hip_fp8_interpretation_t kind) {
  return {__hip_cvt_fp8_to_halfraw(a & 0xff, kind).x, __hip_cvt_fp8_to_halfraw(a >> 8, kind).x};
}

template <class Number> Number rocm_perf_lab_value();

// One value, two and four; NAME##x2 has its first value in the low byte. A number of any type converts to one value.
#define ROCM_PERF_LAB_FP8(ONE, TWO, FOUR, KIND)                                                                       \
  struct ONE {                                                                                                        \
    __hip_fp8_storage_t __x;                                                                                          \
    ONE() = default;                                                                                                  \
    template <class Number, class = decltype((float)rocm_perf_lab_value<Number>())>                                    \
    __attribute__((host, device)) ONE(Number a) : __x(__hip_cvt_float_to_fp8((float)a, __HIP_SATFINITE, KIND)) {}      \
    __attribute__((host, device)) operator float() const { return rocm_perf_lab_fp8_to_float(__x, KIND); }            \
  };                                                                                                                  \
  struct TWO {                                                                                                        \
    __hip_fp8x2_storage_t __x;                                                                                        \
    TWO() = default;                                                                                                  \
    __attribute__((host, device)) TWO(float2 a) : __x(__hip_cvt_float2_to_fp8x2(a, __HIP_SATFINITE, KIND)) {}         \
    __attribute__((host, device)) TWO(double2 a) : TWO(make_float2((float)a.x, (float)a.y)) {}                        \
    __attribute__((host, device)) TWO(__half2 a) : TWO(rocm_perf_lab_floats(a)) {}                                    \
    __attribute__((host, device)) TWO(__hip_bfloat162 a) : TWO(rocm_perf_lab_floats(a)) {}                            \
    __attribute__((host, device)) operator float2() const { return rocm_perf_lab_fp8x2_to_float2(__x, KIND); }        \
  };                                                                                                                  \
  struct FOUR {                                                                                                       \
    __hip_fp8x4_storage_t __x;                                                                                        \
    FOUR() = default;                                                                                                 \
    __attribute__((host, device)) FOUR(TWO low, TWO high) : __x(low.__x | (unsigned int)high.__x << 16) {}            \
    __attribute__((host, device)) FOUR(float4 a) : FOUR(TWO(make_float2(a.x, a.y)), TWO(make_float2(a.z, a.w))) {}    \
    __attribute__((host, device)) FOUR(double4 a) : FOUR(TWO(make_double2(a.x, a.y)), TWO(make_double2(a.z, a.w))) {} \
    __attribute__((host, device)) FOUR(__half2 low, __half2 high) : FOUR(TWO(low), TWO(high)) {}                      \
    __attribute__((host, device)) FOUR(__hip_bfloat162 low, __hip_bfloat162 high) : FOUR(TWO(low), TWO(high)) {}      \
    __attribute__((host, device)) operator float4() const {                                                           \
      float2 low = rocm_perf_lab_fp8x2_to_float2(__x & 0xffff, KIND);                                                 \
      float2 high = rocm_perf_lab_fp8x2_to_float2(__x >> 16, KIND);                                                   \
      return make_float4(low.x, low.y, high.x, high.y);                                                               \
    }                                                                                                                 \
  };
ROCM_PERF_LAB_FP8(__hip_fp8_e4m3_fnuz, __hip_fp8x2_e4m3_fnuz, __hip_fp8x4_e4m3_fnuz, __HIP_E4M3_FNUZ)
ROCM_PERF_LAB_FP8(__hip_fp8_e5m2_fnuz, __hip_fp8x2_e5m2_fnuz, __hip_fp8x4_e5m2_fnuz, __HIP_E5M2_FNUZ)
ROCM_PERF_LAB_FP8(__hip_fp8_e4m3, __hip_fp8x2_e4m3, __hip_fp8x4_e4m3, __HIP_E4M3)
ROCM_PERF_LAB_FP8(__hip_fp8_e5m2, __hip_fp8x2_e5m2, __hip_fp8x4_e5m2, __HIP_E5M2)
#undef ROCM_PERF_LAB_FP8
#undef ROCM_PERF_LAB_HD
