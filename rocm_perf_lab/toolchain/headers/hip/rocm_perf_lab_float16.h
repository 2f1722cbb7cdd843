// What hip_fp16.h and hip_bf16.h have in common: arithmetic, comparison and pairs of a 16-bit float type that the
// compiler knows. Used only on machines without ROCm, whose own headers are complete.
#pragma once

#include <hip/rocm_perf_lab_math16.h>

#define ROCM_PERF_LAB_HD static inline __attribute__((host, device, always_inline))
#define ROCM_PERF_LAB_HD_MEMBER __attribute__((host, device, always_inline))

// T: the scalar; T2: a struct of two; V2: the compiler's vector of two, for packed instructions.
#define ROCM_PERF_LAB_PAIR(T, T2, V2)                                                                               \
  typedef T V2 __attribute__((ext_vector_type(2)));                                                                 \
  struct __attribute__((aligned(4))) T2 {                                                                           \
    T x, y;                                                                                                         \
    __attribute__((host, device)) T2() = default;                                                                   \
    __attribute__((host, device)) T2(T low, T high) : x(low), y(high) {}                                            \
    __attribute__((host, device)) T2(V2 both) : x(both.x), y(both.y) {}                                             \
    __attribute__((host, device)) operator V2() const { return V2{x, y}; }                                          \
    __attribute__((host, device)) T2& operator+=(T2 b) { return *this = T2(V2(*this) + V2(b)); }                    \
    __attribute__((host, device)) T2& operator-=(T2 b) { return *this = T2(V2(*this) - V2(b)); }                    \
    __attribute__((host, device)) T2& operator*=(T2 b) { return *this = T2(V2(*this) * V2(b)); }                    \
    __attribute__((host, device)) T2& operator/=(T2 b) { return *this = T2(V2(*this) / V2(b)); }                    \
  };                                                                                                                \
  ROCM_PERF_LAB_HD T2 operator+(T2 a, T2 b) { return T2(V2(a) + V2(b)); }                                           \
  ROCM_PERF_LAB_HD T2 operator-(T2 a, T2 b) { return T2(V2(a) - V2(b)); }                                           \
  ROCM_PERF_LAB_HD T2 operator*(T2 a, T2 b) { return T2(V2(a) * V2(b)); }                                           \
  ROCM_PERF_LAB_HD T2 operator/(T2 a, T2 b) { return T2(V2(a) / V2(b)); }                                           \
  ROCM_PERF_LAB_HD T2 operator-(T2 a) { return T2(-V2(a)); }                                                        \
  ROCM_PERF_LAB_HD bool operator==(T2 a, T2 b) { return a.x == b.x && a.y == b.y; }                                 \
  ROCM_PERF_LAB_HD bool operator!=(T2 a, T2 b) { return !(a == b); }

#define ROCM_PERF_LAB_ARITHMETIC(T, T2, V2)                                                                         \
  ROCM_PERF_LAB_HD T __hadd(T a, T b) { return a + b; }                                                             \
  ROCM_PERF_LAB_HD T __hsub(T a, T b) { return a - b; }                                                             \
  ROCM_PERF_LAB_HD T __hmul(T a, T b) { return a * b; }                                                             \
  ROCM_PERF_LAB_HD T __hdiv(T a, T b) { return a / b; }                                                             \
  ROCM_PERF_LAB_HD T __hneg(T a) { return -a; }                                                                     \
  ROCM_PERF_LAB_HD T __habs(T a) { return __builtin_elementwise_abs(a); }                                           \
  ROCM_PERF_LAB_HD T __hfma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }                           \
  ROCM_PERF_LAB_HD T __hmax(T a, T b) { return a != a || a < b ? b : a; }                                           \
  ROCM_PERF_LAB_HD T __hmin(T a, T b) { return a != a || b < a ? b : a; }                                           \
  ROCM_PERF_LAB_HD bool __heq(T a, T b) { return a == b; }                                                          \
  ROCM_PERF_LAB_HD bool __hne(T a, T b) { return a != b; }                                                          \
  ROCM_PERF_LAB_HD bool __hlt(T a, T b) { return a < b; }                                                           \
  ROCM_PERF_LAB_HD bool __hle(T a, T b) { return a <= b; }                                                          \
  ROCM_PERF_LAB_HD bool __hgt(T a, T b) { return a > b; }                                                           \
  ROCM_PERF_LAB_HD bool __hge(T a, T b) { return a >= b; }                                                          \
  ROCM_PERF_LAB_HD bool __hisnan(T a) { return a != a; }                                                            \
  ROCM_PERF_LAB_HD bool __hisinf(T a) { return a == a && a - a != T(0); }                                           \
  ROCM_PERF_LAB_HD T2 __hadd2(T2 a, T2 b) { return a + b; }                                                         \
  ROCM_PERF_LAB_HD T2 __hsub2(T2 a, T2 b) { return a - b; }                                                         \
  ROCM_PERF_LAB_HD T2 __hmul2(T2 a, T2 b) { return a * b; }                                                         \
  ROCM_PERF_LAB_HD T2 __h2div(T2 a, T2 b) { return a / b; }                                                         \
  ROCM_PERF_LAB_HD T2 __hneg2(T2 a) { return -a; }                                                                  \
  ROCM_PERF_LAB_HD T2 __hfma2(T2 a, T2 b, T2 c) { return T2(__builtin_elementwise_fma(V2(a), V2(b), V2(c))); }      \
  ROCM_PERF_LAB_HD T2 __hmax2(T2 a, T2 b) { return T2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }                        \
  ROCM_PERF_LAB_HD T2 __hmin2(T2 a, T2 b) { return T2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }                        \
  ROCM_PERF_LAB_HD T2 __habs2(T2 a) { return T2(__habs(a.x), __habs(a.y)); }                                        \
  ROCM_PERF_LAB_HD T __ldg(const T* p) { return *p; }                                                               \
  ROCM_PERF_LAB_HD T2 __ldg(const T2* p) { return *p; }                                                             \
  ROCM_PERF_LAB_COMPARISON(__heq, T, T2)                                                                            \
  ROCM_PERF_LAB_COMPARISON(__hne, T, T2)                                                                            \
  ROCM_PERF_LAB_COMPARISON(__hlt, T, T2)                                                                            \
  ROCM_PERF_LAB_COMPARISON(__hle, T, T2)                                                                            \
  ROCM_PERF_LAB_COMPARISON(__hgt, T, T2)                                                                            \
  ROCM_PERF_LAB_COMPARISON(__hge, T, T2)                                                                            \
  ROCM_PERF_LAB_HD bool __hequ(T a, T b) { return !(a < b || a > b); }                                              \
  ROCM_PERF_LAB_HD bool __hneu(T a, T b) { return !(a == b); }                                                      \
  ROCM_PERF_LAB_HD bool __hltu(T a, T b) { return !(a >= b); }                                                      \
  ROCM_PERF_LAB_HD bool __hleu(T a, T b) { return !(a > b); }                                                       \
  ROCM_PERF_LAB_HD bool __hgtu(T a, T b) { return !(a <= b); }                                                      \
  ROCM_PERF_LAB_HD bool __hgeu(T a, T b) { return !(a < b); }                                                       \
  ROCM_PERF_LAB_COMPARISON(__hequ, T, T2)                                                                           \
  ROCM_PERF_LAB_COMPARISON(__hneu, T, T2)                                                                           \
  ROCM_PERF_LAB_COMPARISON(__hltu, T, T2)                                                                           \
  ROCM_PERF_LAB_COMPARISON(__hleu, T, T2)                                                                           \
  ROCM_PERF_LAB_COMPARISON(__hgtu, T, T2)                                                                           \
  ROCM_PERF_LAB_COMPARISON(__hgeu, T, T2)                                                                           \
  ROCM_PERF_LAB_BOTH(eq, T2)                                                                                        \
  ROCM_PERF_LAB_BOTH(ne, T2)                                                                                        \
  ROCM_PERF_LAB_BOTH(lt, T2)                                                                                        \
  ROCM_PERF_LAB_BOTH(le, T2)                                                                                        \
  ROCM_PERF_LAB_BOTH(gt, T2)                                                                                        \
  ROCM_PERF_LAB_BOTH(ge, T2)                                                                                        \
  ROCM_PERF_LAB_HD T2 __hisnan2(T2 a) { return T2(T(__hisnan(a.x)), T(__hisnan(a.y))); }                            \
  ROCM_PERF_LAB_HD T __hmax_nan(T a, T b) { return a != a ? a : b != b ? b : __hmax(a, b); }                        \
  ROCM_PERF_LAB_HD T __hmin_nan(T a, T b) { return a != a ? a : b != b ? b : __hmin(a, b); }                        \
  ROCM_PERF_LAB_HD T2 __hmax2_nan(T2 a, T2 b) { return T2(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)); }            \
  ROCM_PERF_LAB_HD T2 __hmin2_nan(T2 a, T2 b) { return T2(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)); }            \
  ROCM_PERF_LAB_HD T __hadd_rn(T a, T b) { return a + b; }                                                          \
  ROCM_PERF_LAB_HD T __hsub_rn(T a, T b) { return a - b; }                                                          \
  ROCM_PERF_LAB_HD T __hmul_rn(T a, T b) { return a * b; }                                                          \
  ROCM_PERF_LAB_HD T2 __hadd2_rn(T2 a, T2 b) { return a + b; }                                                      \
  ROCM_PERF_LAB_HD T2 __hsub2_rn(T2 a, T2 b) { return a - b; }                                                      \
  ROCM_PERF_LAB_HD T2 __hmul2_rn(T2 a, T2 b) { return a * b; }                                                      \
  ROCM_PERF_LAB_HD T rocm_perf_lab_saturated(T a) { return a > T(1) ? T(1) : a > T(0) ? a : T(0); }                 \
  ROCM_PERF_LAB_HD T2 rocm_perf_lab_saturated(T2 a) {                                                               \
    return T2(rocm_perf_lab_saturated(a.x), rocm_perf_lab_saturated(a.y));                                          \
  }                                                                                                                 \
  ROCM_PERF_LAB_HD T __hadd_sat(T a, T b) { return rocm_perf_lab_saturated(T(a + b)); }                             \
  ROCM_PERF_LAB_HD T __hsub_sat(T a, T b) { return rocm_perf_lab_saturated(T(a - b)); }                             \
  ROCM_PERF_LAB_HD T __hmul_sat(T a, T b) { return rocm_perf_lab_saturated(T(a * b)); }                             \
  ROCM_PERF_LAB_HD T __hfma_sat(T a, T b, T c) { return rocm_perf_lab_saturated(__hfma(a, b, c)); }                 \
  ROCM_PERF_LAB_HD T2 __hadd2_sat(T2 a, T2 b) { return rocm_perf_lab_saturated(a + b); }                            \
  ROCM_PERF_LAB_HD T2 __hsub2_sat(T2 a, T2 b) { return rocm_perf_lab_saturated(a - b); }                            \
  ROCM_PERF_LAB_HD T2 __hmul2_sat(T2 a, T2 b) { return rocm_perf_lab_saturated(a * b); }                            \
  ROCM_PERF_LAB_HD T2 __hfma2_sat(T2 a, T2 b, T2 c) { return rocm_perf_lab_saturated(__hfma2(a, b, c)); }           \
  ROCM_PERF_LAB_HD T2 __hcmadd(T2 a, T2 b, T2 c) {                                                                  \
    return T2(a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y);                                            \
  }                                                                                                                 \
  ROCM_PERF_LAB_HD T __ldca(const T* p) { return *p; }                                                              \
  ROCM_PERF_LAB_HD T __ldcg(const T* p) { return *p; }                                                              \
  ROCM_PERF_LAB_HD T __ldcs(const T* p) { return *p; }                                                              \
  ROCM_PERF_LAB_HD T2 __ldca(const T2* p) { return *p; }                                                            \
  ROCM_PERF_LAB_HD T2 __ldcg(const T2* p) { return *p; }                                                            \
  ROCM_PERF_LAB_HD T2 __ldcs(const T2* p) { return *p; }

// Of pairs: 1 or 0 for each value.
#define ROCM_PERF_LAB_COMPARISON(NAME, T, T2)                                                                       \
  ROCM_PERF_LAB_HD T2 NAME##2(T2 a, T2 b) { return T2(T(NAME(a.x, b.x)), T(NAME(a.y, b.y))); }

// Of pairs: whether it is true for both values.
#define ROCM_PERF_LAB_BOTH(NAME, T2)                                                                                \
  ROCM_PERF_LAB_HD bool __hb##NAME##2(T2 a, T2 b) { return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y); }            \
  ROCM_PERF_LAB_HD bool __hb##NAME##u2(T2 a, T2 b) { return __h##NAME##u(a.x, b.x) && __h##NAME##u(a.y, b.y); }

// Conversions between T, which is WORD in the names of functions, and an integer.
#define ROCM_PERF_LAB_INTEGER(WORD, T, NAME, INTEGER)                                                               \
  ROCM_PERF_LAB_HD INTEGER __##WORD##2##NAME##_rz(T a) { return (INTEGER)(float)a; }                                \
  ROCM_PERF_LAB_HD INTEGER __##WORD##2##NAME##_rn(T a) { return (INTEGER)__builtin_rintf((float)a); }               \
  ROCM_PERF_LAB_HD INTEGER __##WORD##2##NAME##_rd(T a) { return (INTEGER)__builtin_floorf((float)a); }              \
  ROCM_PERF_LAB_HD INTEGER __##WORD##2##NAME##_ru(T a) { return (INTEGER)__builtin_ceilf((float)a); }               \
  ROCM_PERF_LAB_HD T __##NAME##2##WORD##_rn(INTEGER a) { return (T)a; }                                             \
  ROCM_PERF_LAB_HD T __##NAME##2##WORD##_rz(INTEGER a) { return (T)a; }                                             \
  ROCM_PERF_LAB_HD T __##NAME##2##WORD##_rd(INTEGER a) { return (T)a; }                                             \
  ROCM_PERF_LAB_HD T __##NAME##2##WORD##_ru(INTEGER a) { return (T)a; }
#define ROCM_PERF_LAB_INTEGERS(WORD, T)                                                                             \
  ROCM_PERF_LAB_INTEGER(WORD, T, int, int)                                                                          \
  ROCM_PERF_LAB_INTEGER(WORD, T, uint, unsigned int)                                                                \
  ROCM_PERF_LAB_INTEGER(WORD, T, short, short)                                                                      \
  ROCM_PERF_LAB_INTEGER(WORD, T, ushort, unsigned short)                                                            \
  ROCM_PERF_LAB_INTEGER(WORD, T, ll, long long)                                                                     \
  ROCM_PERF_LAB_INTEGER(WORD, T, ull, unsigned long long)                                                           \
  ROCM_PERF_LAB_HD signed char __##WORD##2char_rz(T a) { return (signed char)(float)a; }                            \
  ROCM_PERF_LAB_HD unsigned char __##WORD##2uchar_rz(T a) { return (unsigned char)(float)a; }

// Two values at once in memory: an instruction if flat memory has one, else a comparison and exchange of the whole dword.
#if __has_builtin(__builtin_amdgcn_flat_atomic_fadd_v2f16)
#define ROCM_PERF_LAB_ATOMIC(T2, V2, BUILTIN_V2, BUILTIN)                                                           \
  static inline __attribute__((device)) T2 unsafeAtomicAdd(T2* p, T2 value) {                                       \
    return __builtin_bit_cast(T2, BUILTIN((BUILTIN_V2*)p, __builtin_bit_cast(BUILTIN_V2, V2(value))));              \
  }
#else
#define ROCM_PERF_LAB_ATOMIC(T2, V2, BUILTIN_V2, BUILTIN)                                                           \
  static inline __attribute__((device)) T2 unsafeAtomicAdd(T2* p, T2 value) {                                       \
    unsigned int* word = (unsigned int*)p;                                                                          \
    unsigned int seen = *word, before;                                                                              \
    do {                                                                                                            \
      before = seen;                                                                                                \
      seen = atomicCAS(word, before, __builtin_bit_cast(unsigned int, __builtin_bit_cast(T2, before) + value));     \
    } while (seen != before);                                                                                       \
    return __builtin_bit_cast(T2, before);                                                                          \
  }
#endif

#define ROCM_PERF_LAB_SAFE_ATOMIC(T2)                                                                               \
  static inline __attribute__((device)) T2 atomicAdd(T2* p, T2 value) { return unsafeAtomicAdd(p, value); }

// 16-bit values travel between lanes in the low half of an int, pairs in a whole one.
#define ROCM_PERF_LAB_SHUFFLE(NAME, LANE, T, T2)                                                                    \
  static inline __attribute__((device)) T NAME(T value, LANE lane, int width = warpSize) {                          \
    int bits = NAME(int(__builtin_bit_cast(unsigned short, value)), lane, width);                                   \
    return __builtin_bit_cast(T, (unsigned short)bits);                                                             \
  }                                                                                                                 \
  static inline __attribute__((device)) T2 NAME(T2 value, LANE lane, int width = warpSize) {                        \
    return __builtin_bit_cast(T2, NAME(__builtin_bit_cast(int, value), lane, width));                               \
  }                                                                                                                 \
  template <class Mask> static inline __attribute__((device)) T NAME##_sync(Mask, T value, LANE lane, int width = warpSize) { \
    return NAME(value, lane, width);                                                                                \
  }                                                                                                                 \
  template <class Mask> static inline __attribute__((device)) T2 NAME##_sync(Mask, T2 value, LANE lane, int width = warpSize) { \
    return NAME(value, lane, width);                                                                                \
  }

#define ROCM_PERF_LAB_SHUFFLES(T, T2)                                                                               \
  ROCM_PERF_LAB_SHUFFLE(__shfl, int, T, T2)                                                                         \
  ROCM_PERF_LAB_SHUFFLE(__shfl_up, unsigned int, T, T2)                                                             \
  ROCM_PERF_LAB_SHUFFLE(__shfl_down, unsigned int, T, T2)                                                           \
  ROCM_PERF_LAB_SHUFFLE(__shfl_xor, int, T, T2)
