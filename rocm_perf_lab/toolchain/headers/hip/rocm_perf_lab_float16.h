// What hip_fp16.h and hip_bf16.h have in common: arithmetic, comparison and pairs of a 16-bit float type that the
// compiler knows. Used only on machines without ROCm, whose own headers are complete.
#pragma once

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
  ROCM_PERF_LAB_COMPARISON(__hge, T, T2)

// Of pairs: 1 or 0 for each value.
#define ROCM_PERF_LAB_COMPARISON(NAME, T, T2)                                                                       \
  ROCM_PERF_LAB_HD T2 NAME##2(T2 a, T2 b) { return T2(T(NAME(a.x, b.x)), T(NAME(a.y, b.y))); }

// Two values at once in memory: an instruction of gfx942, elsewhere a comparison and exchange of the whole dword.
#ifdef __gfx942__
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

// 16-bit values travel between lanes in the low half of an int, pairs in a whole one.
#define ROCM_PERF_LAB_SHUFFLE(NAME, LANE, T, T2)                                                                    \
  static inline __attribute__((device)) T NAME(T value, LANE lane, int width = warpSize) {                          \
    int bits = NAME(int(__builtin_bit_cast(unsigned short, value)), lane, width);                                   \
    return __builtin_bit_cast(T, (unsigned short)bits);                                                             \
  }                                                                                                                 \
  static inline __attribute__((device)) T2 NAME(T2 value, LANE lane, int width = warpSize) {                        \
    return __builtin_bit_cast(T2, NAME(__builtin_bit_cast(int, value), lane, width));                               \
  }

#define ROCM_PERF_LAB_SHUFFLES(T, T2)                                                                               \
  ROCM_PERF_LAB_SHUFFLE(__shfl, int, T, T2)                                                                         \
  ROCM_PERF_LAB_SHUFFLE(__shfl_up, unsigned int, T, T2)                                                             \
  ROCM_PERF_LAB_SHUFFLE(__shfl_down, unsigned int, T, T2)                                                           \
  ROCM_PERF_LAB_SHUFFLE(__shfl_xor, int, T, T2)
