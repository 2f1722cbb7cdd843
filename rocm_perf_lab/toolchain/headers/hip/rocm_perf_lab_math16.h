// The functions of <cmath> for 16-bit floats, for machines without ROCm. The types are built into the compiler, so that a call
// would be ambiguous between float, double and the templates of the standard library. Results are float, as with ROCm's
// classes, which convert to float. The same functions are visible in the global namespace and in std.
#pragma once

namespace rocm_perf_lab_math {

template <class Number> struct is_small { static constexpr bool value = false; };
template <> struct is_small<_Float16> { static constexpr bool value = true; };
template <> struct is_small<__bf16> { static constexpr bool value = true; };

// The type in which a value is computed: double stays double, everything else is float.
template <class Number> struct computed { typedef float type; };
template <> struct computed<double> { typedef double type; };
template <> struct computed<long double> { typedef double type; };

template <bool Condition, class Number> struct enabled {};
template <class Number> struct enabled<true, Number> { typedef Number type; };

template <class Number, class Result> using for_small = typename enabled<is_small<Number>::value, Result>::type;
template <class First, class Second>
using for_pair = typename enabled<is_small<First>::value || is_small<Second>::value,
                                  decltype(typename computed<First>::type() + typename computed<Second>::type())>::type;

#define ROCM_PERF_LAB_MATH static inline __attribute__((host, device, always_inline))

#define ROCM_PERF_LAB_UNARY(RESULT, NAME, FLOAT)                                                                    \
  template <class Number> ROCM_PERF_LAB_MATH for_small<Number, RESULT> NAME(Number x) { return FLOAT((float)x); }

ROCM_PERF_LAB_UNARY(float, abs, ::fabsf)
ROCM_PERF_LAB_UNARY(float, acos, ::acosf)
ROCM_PERF_LAB_UNARY(float, acosh, ::acoshf)
ROCM_PERF_LAB_UNARY(float, asin, ::asinf)
ROCM_PERF_LAB_UNARY(float, asinh, ::asinhf)
ROCM_PERF_LAB_UNARY(float, atan, ::atanf)
ROCM_PERF_LAB_UNARY(float, atanh, ::atanhf)
ROCM_PERF_LAB_UNARY(float, cbrt, ::cbrtf)
ROCM_PERF_LAB_UNARY(float, ceil, ::ceilf)
ROCM_PERF_LAB_UNARY(float, cos, ::cosf)
ROCM_PERF_LAB_UNARY(float, cosh, ::coshf)
ROCM_PERF_LAB_UNARY(float, erf, ::erff)
ROCM_PERF_LAB_UNARY(float, erfc, ::erfcf)
ROCM_PERF_LAB_UNARY(float, exp, ::expf)
ROCM_PERF_LAB_UNARY(float, exp2, ::exp2f)
ROCM_PERF_LAB_UNARY(float, expm1, ::expm1f)
ROCM_PERF_LAB_UNARY(float, fabs, ::fabsf)
ROCM_PERF_LAB_UNARY(float, floor, ::floorf)
ROCM_PERF_LAB_UNARY(float, lgamma, ::lgammaf)
ROCM_PERF_LAB_UNARY(float, log, ::logf)
ROCM_PERF_LAB_UNARY(float, log10, ::log10f)
ROCM_PERF_LAB_UNARY(float, log1p, ::log1pf)
ROCM_PERF_LAB_UNARY(float, log2, ::log2f)
ROCM_PERF_LAB_UNARY(float, logb, ::logbf)
ROCM_PERF_LAB_UNARY(float, nearbyint, ::nearbyintf)
ROCM_PERF_LAB_UNARY(float, rint, ::rintf)
ROCM_PERF_LAB_UNARY(float, round, ::roundf)
ROCM_PERF_LAB_UNARY(float, sin, ::sinf)
ROCM_PERF_LAB_UNARY(float, sinh, ::sinhf)
ROCM_PERF_LAB_UNARY(float, sqrt, ::sqrtf)
ROCM_PERF_LAB_UNARY(float, tan, ::tanf)
ROCM_PERF_LAB_UNARY(float, tanh, ::tanhf)
ROCM_PERF_LAB_UNARY(float, tgamma, ::tgammaf)
ROCM_PERF_LAB_UNARY(float, trunc, ::truncf)
ROCM_PERF_LAB_UNARY(bool, isnan, __builtin_isnan)
ROCM_PERF_LAB_UNARY(bool, isinf, __builtin_isinf)
ROCM_PERF_LAB_UNARY(bool, isfinite, __builtin_isfinite)
ROCM_PERF_LAB_UNARY(bool, isnormal, __builtin_isnormal)
ROCM_PERF_LAB_UNARY(bool, signbit, __builtin_signbit)
ROCM_PERF_LAB_UNARY(int, ilogb, ::ilogbf)
ROCM_PERF_LAB_UNARY(long, lrint, ::lrintf)
ROCM_PERF_LAB_UNARY(long, lround, ::lroundf)
ROCM_PERF_LAB_UNARY(long long, llrint, ::llrintf)
ROCM_PERF_LAB_UNARY(long long, llround, ::llroundf)

// A double operand makes the result double, as in the standard library.
#define ROCM_PERF_LAB_BINARY(NAME)                                                                                  \
  ROCM_PERF_LAB_MATH float NAME##_of(float x, float y) { return ::NAME##f(x, y); }                                  \
  ROCM_PERF_LAB_MATH double NAME##_of(double x, double y) { return ::NAME(x, y); }                                  \
  template <class First, class Second> ROCM_PERF_LAB_MATH for_pair<First, Second> NAME(First x, Second y) {            \
    return NAME##_of((for_pair<First, Second>)x, (for_pair<First, Second>)y);                                          \
  }
ROCM_PERF_LAB_BINARY(atan2)
ROCM_PERF_LAB_BINARY(copysign)
ROCM_PERF_LAB_BINARY(fdim)
ROCM_PERF_LAB_BINARY(fmax)
ROCM_PERF_LAB_BINARY(fmin)
ROCM_PERF_LAB_BINARY(fmod)
ROCM_PERF_LAB_BINARY(hypot)
ROCM_PERF_LAB_BINARY(nextafter)
ROCM_PERF_LAB_BINARY(pow)
ROCM_PERF_LAB_BINARY(remainder)

// Equal types keep their type and are compared, as by the templates for device code in clang's headers.
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, Number> max(Number x, Number y) { return x > y ? x : y; }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, Number> min(Number x, Number y) { return x < y ? x : y; }
template <class First, class Second> ROCM_PERF_LAB_MATH for_pair<First, Second> max(First x, Second y) { return fmax(x, y); }
template <class First, class Second> ROCM_PERF_LAB_MATH for_pair<First, Second> min(First x, Second y) { return fmin(x, y); }

template <class First, class Second, class Third> ROCM_PERF_LAB_MATH for_pair<First, Second> fma(First x, Second y, Third z) {
  return __builtin_elementwise_fma((for_pair<First, Second>)x, (for_pair<First, Second>)y, (for_pair<First, Second>)z);
}
template <class First> ROCM_PERF_LAB_MATH for_small<First, float> fma(float x, float y, First z) { return ::fmaf(x, y, (float)z); }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, float> ldexp(Number x, int by) { return ::ldexpf((float)x, by); }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, float> scalbn(Number x, int by) { return ::scalbnf((float)x, by); }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, float> scalbln(Number x, long by) { return ::scalblnf((float)x, by); }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, float> frexp(Number x, int* exponent) { return ::frexpf((float)x, exponent); }
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, float> remquo(Number x, Number y, int* quotient) {
  return ::remquof((float)x, (float)y, quotient);
}
template <class Number> ROCM_PERF_LAB_MATH for_small<Number, Number> modf(Number x, Number* whole) {
  float part;
  float fraction = ::modff((float)x, &part);
  *whole = (Number)part;
  return (Number)fraction;
}

#undef ROCM_PERF_LAB_UNARY
#undef ROCM_PERF_LAB_BINARY
#undef ROCM_PERF_LAB_MATH

}  // namespace rocm_perf_lab_math

#define ROCM_PERF_LAB_EVERY(USE)                                                                                    \
  USE(abs) USE(acos) USE(acosh) USE(asin) USE(asinh) USE(atan) USE(atan2) USE(atanh) USE(cbrt) USE(ceil)            \
  USE(copysign) USE(cos) USE(cosh) USE(erf) USE(erfc) USE(exp) USE(exp2) USE(expm1) USE(fabs) USE(fdim)             \
  USE(floor) USE(fma) USE(fmax) USE(fmin) USE(fmod) USE(frexp) USE(hypot) USE(ilogb) USE(isfinite) USE(isinf)       \
  USE(isnan) USE(isnormal) USE(ldexp) USE(lgamma) USE(llrint) USE(llround) USE(log) USE(log10) USE(log1p)           \
  USE(log2) USE(logb) USE(lrint) USE(lround) USE(modf) USE(nearbyint) USE(nextafter) USE(pow) USE(remainder)        \
  USE(remquo) USE(rint) USE(round) USE(scalbln) USE(scalbn) USE(signbit) USE(sin) USE(sinh) USE(sqrt) USE(tan)      \
  USE(tanh) USE(tgamma) USE(trunc)
#define ROCM_PERF_LAB_USE(NAME) using rocm_perf_lab_math::NAME;
ROCM_PERF_LAB_EVERY(ROCM_PERF_LAB_USE)
ROCM_PERF_LAB_USE(max)
ROCM_PERF_LAB_USE(min)
namespace std {
ROCM_PERF_LAB_EVERY(ROCM_PERF_LAB_USE)
}
#undef ROCM_PERF_LAB_EVERY
#undef ROCM_PERF_LAB_USE
