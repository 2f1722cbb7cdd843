// Complex numbers as pairs, for machines without ROCm: the functions of HIP's hip_complex.h.
#pragma once

#include <hip/hip_runtime.h>

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;

#define ROCM_PERF_LAB_HD_COMPLEX static inline __attribute__((host, device, always_inline))

// S: the suffix of the single-precision names. Division scales by the larger part, so that it does not overflow early.
#define ROCM_PERF_LAB_COMPLEX(C, R, S, MAKE, SQRT, FABS)                                                            \
  ROCM_PERF_LAB_HD_COMPLEX C MAKE(R real, R imaginary) { C z; z.x = real; z.y = imaginary; return z; }              \
  ROCM_PERF_LAB_HD_COMPLEX R hipCreal##S(C z) { return z.x; }                                                       \
  ROCM_PERF_LAB_HD_COMPLEX R hipCimag##S(C z) { return z.y; }                                                       \
  ROCM_PERF_LAB_HD_COMPLEX C hipConj##S(C z) { return MAKE(z.x, -z.y); }                                            \
  ROCM_PERF_LAB_HD_COMPLEX R hipCsqabs##S(C z) { return z.x * z.x + z.y * z.y; }                                    \
  ROCM_PERF_LAB_HD_COMPLEX R hipCabs##S(C z) { return SQRT(hipCsqabs##S(z)); }                                      \
  ROCM_PERF_LAB_HD_COMPLEX C hipCadd##S(C a, C b) { return MAKE(a.x + b.x, a.y + b.y); }                            \
  ROCM_PERF_LAB_HD_COMPLEX C hipCsub##S(C a, C b) { return MAKE(a.x - b.x, a.y - b.y); }                            \
  ROCM_PERF_LAB_HD_COMPLEX C hipCmul##S(C a, C b) { return MAKE(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }    \
  ROCM_PERF_LAB_HD_COMPLEX C hipCdiv##S(C a, C b) {                                                                 \
    R scale = R(1) / (FABS(b.x) + FABS(b.y));                                                                       \
    C n = MAKE(a.x * scale, a.y * scale), d = MAKE(b.x * scale, b.y * scale);                                       \
    R over = R(1) / hipCsqabs##S(d);                                                                                \
    return MAKE((n.x * d.x + n.y * d.y) * over, (n.y * d.x - n.x * d.y) * over);                                    \
  }                                                                                                                 \
  ROCM_PERF_LAB_HD_COMPLEX C hipCfma##S(C a, C b, C c) { return hipCadd##S(hipCmul##S(a, b), c); }
ROCM_PERF_LAB_COMPLEX(hipFloatComplex, float, f, make_hipFloatComplex, __builtin_sqrtf, __builtin_fabsf)
ROCM_PERF_LAB_COMPLEX(hipDoubleComplex, double, , make_hipDoubleComplex, __builtin_sqrt, __builtin_fabs)
#undef ROCM_PERF_LAB_COMPLEX

ROCM_PERF_LAB_HD_COMPLEX hipComplex make_hipComplex(float real, float imaginary) {
  return make_hipFloatComplex(real, imaginary);
}
ROCM_PERF_LAB_HD_COMPLEX hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) {
  return make_hipDoubleComplex(z.x, z.y);
}
ROCM_PERF_LAB_HD_COMPLEX hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) {
  return make_hipFloatComplex((float)z.x, (float)z.y);
}
