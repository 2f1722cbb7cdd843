// HIP's older bfloat16, a class over 16 bits whose arithmetic is float's, for machines without ROCm.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/rocm_perf_lab_bfloat16.h>

#define ROCM_PERF_LAB_BF __attribute__((host, device))

struct hip_bfloat16 {
  unsigned short data;

  enum truncate_t { truncate };

  hip_bfloat16() = default;
  explicit ROCM_PERF_LAB_BF hip_bfloat16(float a) : data(__builtin_bit_cast(unsigned short, (__bf16)a)) {}
  explicit ROCM_PERF_LAB_BF hip_bfloat16(float a, truncate_t) : data(__builtin_bit_cast(unsigned int, a) >> 16) {}
  ROCM_PERF_LAB_BF operator float() const { return (float)__builtin_bit_cast(__bf16, data); }
  ROCM_PERF_LAB_BF hip_bfloat16& operator=(float a) { return *this = hip_bfloat16(a); }
  static ROCM_PERF_LAB_BF hip_bfloat16 round_to_bfloat16(float a) { return hip_bfloat16(a); }
  static ROCM_PERF_LAB_BF hip_bfloat16 round_to_bfloat16(float a, truncate_t) { return hip_bfloat16(a, truncate); }
};

#define ROCM_PERF_LAB_BF_OPERATOR(OP)                                                                               \
  static inline ROCM_PERF_LAB_BF hip_bfloat16 operator OP(hip_bfloat16 a, hip_bfloat16 b) {                         \
    return hip_bfloat16((float)a OP (float)b);                                                                      \
  }                                                                                                                 \
  static inline ROCM_PERF_LAB_BF hip_bfloat16& operator OP##=(hip_bfloat16& a, hip_bfloat16 b) { return a = a OP b; }
ROCM_PERF_LAB_BF_OPERATOR(+)
ROCM_PERF_LAB_BF_OPERATOR(-)
ROCM_PERF_LAB_BF_OPERATOR(*)
ROCM_PERF_LAB_BF_OPERATOR(/)
#undef ROCM_PERF_LAB_BF_OPERATOR
static inline ROCM_PERF_LAB_BF hip_bfloat16 operator-(hip_bfloat16 a) { return hip_bfloat16(-(float)a); }
#undef ROCM_PERF_LAB_BF
