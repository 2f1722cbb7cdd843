// The 8-bit floats of gfx942 (the "fnuz" kinds: no infinities, one NaN, no negative zero), on its conversion
// instructions, for machines without ROCm. The OCP kinds, which gfx942 has no instructions for, are not here.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>

typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;

enum __hip_saturation_t { __HIP_NOSAT, __HIP_SATFINITE };
enum __hip_fp8_interpretation_t { __HIP_E4M3 = 0, __HIP_E5M2 = 1, __HIP_E4M3_FNUZ = 2, __HIP_E5M2_FNUZ = 3 };

#if defined(__HIP_DEVICE_COMPILE__) && !defined(__gfx942__)
#error "hip_fp8.h without ROCm: the fnuz conversion instructions exist on gfx942 only"
#endif

#define ROCM_PERF_LAB_D static inline __attribute__((device, always_inline))

// Finite values beyond the range saturate or become NaN; NaN stays NaN.
ROCM_PERF_LAB_D __hip_fp8_storage_t __hip_cvt_float_to_fp8(float a, __hip_saturation_t saturation,
                                                           __hip_fp8_interpretation_t kind) {
  const float largest = kind == __HIP_E4M3_FNUZ ? 240.0f : 57344.0f;
  if (saturation == __HIP_SATFINITE && a == a) a = __builtin_amdgcn_fmed3f(a, largest, -largest);
  return kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_pk_fp8_f32(a, a, 0, false) & 0xff
                                 : __builtin_amdgcn_cvt_pk_bf8_f32(a, a, 0, false) & 0xff;
}

ROCM_PERF_LAB_D float rocm_perf_lab_fp8_to_float(__hip_fp8_storage_t a, __hip_fp8_interpretation_t kind) {
  return kind == __HIP_E4M3_FNUZ ? __builtin_amdgcn_cvt_f32_fp8(a, 0) : __builtin_amdgcn_cvt_f32_bf8(a, 0);
}

#define ROCM_PERF_LAB_FP8(NAME, KIND)                                                                               \
  struct NAME {                                                                                                     \
    __hip_fp8_storage_t __x;                                                                                        \
    NAME() = default;                                                                                               \
    __attribute__((device)) explicit NAME(float a) : __x(__hip_cvt_float_to_fp8(a, __HIP_SATFINITE, KIND)) {}       \
    __attribute__((device)) explicit NAME(double a) : NAME((float)a) {}                                             \
    __attribute__((device)) explicit NAME(__half a) : NAME((float)a) {}                                             \
    __attribute__((device)) operator float() const { return rocm_perf_lab_fp8_to_float(__x, KIND); }                \
  };
ROCM_PERF_LAB_FP8(__hip_fp8_e4m3_fnuz, __HIP_E4M3_FNUZ)
ROCM_PERF_LAB_FP8(__hip_fp8_e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef ROCM_PERF_LAB_FP8
