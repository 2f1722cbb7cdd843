#include <hip/hip_runtime.h>

#define MAP1(name, type, expression)                                          \
  extern "C" __global__ void name(const type* in, type* out) {                \
    type x = in[blockIdx.x * blockDim.x + threadIdx.x];                       \
    out[blockIdx.x * blockDim.x + threadIdx.x] = expression;                  \
  }
#define MAP2(name, type, expression)                                          \
  extern "C" __global__ void name(const type* in, const type* in2, type* out) { \
    type x = in[blockIdx.x * blockDim.x + threadIdx.x], y = in2[blockIdx.x * blockDim.x + threadIdx.x]; \
    out[blockIdx.x * blockDim.x + threadIdx.x] = expression;                  \
  }

MAP1(sine, float, sinf(x))
MAP1(cosine, float, cosf(x))
MAP1(tangent, float, tanf(x))
MAP1(exponential, float, expf(x))
MAP1(exponential2, float, exp2f(x))
MAP1(exponential_minus_1, float, expm1f(x))
MAP1(logarithm, float, logf(x))
MAP1(logarithm10, float, log10f(x))
MAP1(logarithm_1_plus, float, log1pf(x))
MAP1(error_function, float, erff(x))
MAP1(complementary_error, float, erfcf(x))
MAP1(log_gamma, float, lgammaf(x))
MAP1(gamma_function, float, tgammaf(x))
MAP1(hyperbolic_tangent, float, tanhf(x))
MAP1(hyperbolic_sine, float, sinhf(x))
MAP1(arcsine, float, asinf(x))
MAP1(arctangent, float, atanf(x))
MAP1(square_root, float, sqrtf(x))
MAP1(reciprocal_root, float, rsqrtf(x))
MAP1(cube_root, float, cbrtf(x))
MAP1(rounded, float, roundf(x) + 10 * floorf(x) + 100 * ceilf(x) + 1000 * truncf(x) + 10000 * rintf(x))
MAP1(fast, float, __sinf(x) + __cosf(x) * __expf(x * 0.1f) + __logf(fabsf(x) + 1.0f))
MAP2(quotient, float, x / y)
MAP2(remainder_, float, fmodf(x, y))
MAP2(power, float, powf(x, y))
MAP2(angle, float, atan2f(x, y))
MAP2(distance, float, hypotf(x, y))
MAP2(fused, float, fmaf(x, y, -x) + fminf(x, y) * fmaxf(x, y) + fdimf(x, y) + copysignf(x, y))
MAP2(scaled, float, ldexpf(x, (int)y) + scalbnf(y, 3))

MAP1(sine64, double, sin(x))
MAP1(cosine64, double, cos(x))
MAP1(exponential64, double, exp(x))
MAP1(logarithm64, double, log(x))
MAP1(error_function64, double, erf(x))
MAP1(log_gamma64, double, lgamma(x))
MAP1(hyperbolic_tangent64, double, tanh(x))
MAP1(arctangent64, double, atan(x))
MAP1(square_root64, double, sqrt(x))
MAP1(reciprocal_root64, double, rsqrt(x))
MAP1(rounded64, double, round(x) + 10 * floor(x) + 100 * ceil(x) + 1000 * trunc(x) + 10000 * rint(x))
MAP2(quotient64, double, x / y)
MAP2(power64, double, pow(x, y))
MAP2(sum_of_products64, double, fma(x, y, x) - fmin(x, y) * fmax(x, y) + (x - y) * 0.5)
MAP2(remainder64, double, fmod(x, y))

extern "C" __global__ void parts(const float* in, float* out, const double* in64, double* out64) {
  int i = threadIdx.x, e;
  float whole, m = frexpf(in[i], &e), f = modff(in[i], &whole);
  out[i] = m + e * 10.0f + f * 100.0f + whole;
  out[i + blockDim.x] = logbf(in[i]) + ilogbf(in[i]);
  double whole64, m64 = frexp(in64[i], &e), f64 = modf(in64[i], &whole64);
  out64[i] = m64 + e * 10.0 + f64 * 100.0 + whole64;
  float s, c;
  sincosf(in[i], &s, &c);
  out[i + 2 * blockDim.x] = s * s + c * c;
}

extern "C" __global__ void classified(const float* in, int* out, const double* in64) {
  int i = threadIdx.x;
  float x = in[i];
  double y = in64[i];
  out[i] = isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | signbit(x) << 3 | (x == x) << 4 | (x > 0) << 5 | !(x < 1) << 6 |
           __builtin_isnormal(x) << 7 | isnan(y) << 8 | isinf(y) << 9 | signbit(y) << 10 | (y <= 0) << 11 | (y != y) << 12 |
           !(y >= 1) << 13;
}

extern "C" __global__ void converted(const float* in, const double* in64, const long long* in3, double* out, float* out2, long long* out3) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = in[i];
  out[i + n] = (double)in3[i];
  out[i + 2 * n] = (double)(unsigned long long)in3[i];
  out[i + 3 * n] = (int)in64[i];
  out2[i] = (float)in64[i];
  out2[i + n] = (float)in3[i];
  out2[i + 2 * n] = (float)(unsigned long long)in3[i];
  out2[i + 3 * n] = (float)(int)in3[i] + (float)(unsigned)in3[i];
  out2[i + 4 * n] = (float)(unsigned char)in3[i] + (float)(short)in3[i];
  out3[i] = (long long)in[i];
  out3[i + n] = (long long)in64[i];
  out3[i + 2 * n] = (int)in[i];
  out3[i + 3 * n] = (unsigned)fabsf(in[i]) + (unsigned long long)fabs(in64[i]);
  out3[i + 4 * n] = __float2int_rn(in[i]) + __float2int_ru(in[i]) * 3 + __float2int_rd(in[i]) * 5;
}

extern "C" __global__ void complex_root(const double* in, double* out) {  // Newton's method, a division in each step
  double x = in[threadIdx.x], y = in[threadIdx.x + 64];
  for (int i = 0; i < 20; i++) {
    double r = x * x - y * y, j = 2 * x * y, d = 3 * (r * r + j * j);
    double nx = (2 * x) / 3 + r / d, ny = (2 * y) / 3 - j / d;
    x = nx;
    y = ny;
  }
  out[threadIdx.x] = x;
  out[threadIdx.x + 64] = y;
}

extern "C" __global__ void exact_quotients(const float* a, const float* b, float* out, const double* c, const double* d, double* out2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] / b[i];
  out2[i] = c[i] / d[i];
}
extern "C" __global__ void exact_roots(const float* a, float* out, const double* b, double* out2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = sqrtf(a[i]);
  out2[i] = sqrt(b[i]);
}
