// Radix-2 Stockham FFT of many signals in LDS, forward and inverse, against a direct transform.
#include <hip/hip_complex.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(hipError_t e, int line) {
  if (e == hipSuccess) return;
  fprintf(stderr, "line %d: %s\n", line, hipGetErrorString(e));
  exit(1);
}
#define HIP(call) check((call), __LINE__)

constexpr int N = 256;

__global__ void fft(const hipFloatComplex* in, hipFloatComplex* out, float sign, float factor) {
  __shared__ hipFloatComplex buffer[2][N];
  const int t = threadIdx.x;
  in += blockIdx.x * N;
  out += blockIdx.x * N;
  buffer[0][t] = in[t];
  buffer[0][t + N / 2] = in[t + N / 2];
  int current = 0;
  for (int half = N / 2, stride = 1; half >= 1; half /= 2, stride *= 2) {
    __syncthreads();
    const int p = t / stride, q = t % stride;
    float s, c;
    sincosf(sign * 3.14159265358979f * p / half, &s, &c);
    const hipFloatComplex a = buffer[current][q + stride * p], b = buffer[current][q + stride * (p + half)];
    current ^= 1;
    buffer[current][q + stride * 2 * p] = hipCaddf(a, b);
    buffer[current][q + stride * (2 * p + 1)] = hipCmulf(hipCsubf(a, b), make_hipFloatComplex(c, s));
  }
  __syncthreads();
  for (int i = t; i < N; i += N / 2) {
    const hipFloatComplex v = buffer[current][i];
    out[i] = make_hipFloatComplex(factor * v.x, factor * v.y);
  }
}

int main() {
  const int signals = 12;
  std::vector<hipFloatComplex> x(signals * N), y(signals * N), back(signals * N);
  for (int i = 0; i < signals * N; i++) x[i] = make_hipFloatComplex(float((i * 29) % 64) / 32 - 1, float((i * 53) % 100) / 50 - 1);
  const size_t bytes = x.size() * sizeof x[0];
  hipFloatComplex *dx, *dy, *dz;
  HIP(hipMalloc(&dx, bytes));
  HIP(hipMalloc(&dy, bytes));
  HIP(hipMalloc(&dz, bytes));
  HIP(hipMemcpy(dx, x.data(), bytes, hipMemcpyHostToDevice));
  fft<<<signals, N / 2>>>(dx, dy, -1.0f, 1.0f);
  fft<<<signals, N / 2>>>(dy, dz, 1.0f, 1.0f / N);
  HIP(hipGetLastError());
  HIP(hipMemcpy(y.data(), dy, bytes, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(back.data(), dz, bytes, hipMemcpyDeviceToHost));
  double forward = 0, round_trip = 0;
  for (int s = 0; s < signals; s++)
    for (int k = 0; k < N; k++) {
      std::complex<double> sum = 0;
      for (int j = 0; j < N; j++) {
        const auto v = x[s * N + j];
        sum += std::complex<double>(v.x, v.y) * std::polar(1.0, -2 * M_PI * ((j * k) % N) / N);
      }
      const auto r = y[s * N + k], b = back[s * N + k], a = x[s * N + k];
      forward = std::fmax(forward, std::abs(sum - std::complex<double>(r.x, r.y)));
      round_trip = std::fmax(round_trip, std::hypot(a.x - b.x, a.y - b.y));
    }
  // Eight stages in single precision; values of the spectrum reach 256.
  const bool right = forward < 1e-3 && round_trip < 1e-5;
  printf("fft: %d signals of %d points, %s\n", signals, N, right ? "PASS" : "FAIL");
  if (!right) printf("errors %g %g\n", forward, round_trip);
  HIP(hipFree(dx));
  HIP(hipFree(dy));
  HIP(hipFree(dz));
  return right ? 0 : 1;
}
