#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
#include <iostream>
#include <vector>
#include <cmath>
#include <cfloat>
template <typename T> struct Acc { using type = T; };
template <> struct Acc<__half> { using type = float; };
template <> struct Acc<__hip_bfloat16> { using type = float; };
template <typename T> __device__ __forceinline__ float to_float(T v) { return static_cast<float>(v); }
template <typename T> __device__ __forceinline__ T from_float(float v) { return static_cast<T>(v); }
template <typename T, int BLOCK> __global__ __launch_bounds__(BLOCK) void softmax(const T* __restrict__ x, T* __restrict__ y, int cols) {
  using A = typename Acc<T>::type;
  __shared__ A red[BLOCK / 64];
  const T* row = x + (size_t)blockIdx.x * cols;
  A m = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += BLOCK) m = fmaxf(m, to_float(row[i]));
  for (int o = 32; o > 0; o /= 2) m = fmaxf(m, __shfl_xor(m, o));
  if ((threadIdx.x & 63) == 0) red[threadIdx.x / 64] = m;
  __syncthreads();
  for (int i = 0; i < BLOCK / 64; ++i) m = max(m, red[i]);
  A s = 0;
  for (int i = threadIdx.x; i < cols; i += BLOCK) s += exp(to_float(row[i]) - m);
  for (int i = threadIdx.x; i < cols; i += BLOCK) y[(size_t)blockIdx.x * cols + i] = from_float<T>(exp(to_float(row[i]) - m) / s);
}
__global__ void gelu(__half2* x, const __hip_bfloat162* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
  float2 v = __half22float2(x[i]); v.x = 0.5f * v.x * (1.f + tanhf(0.79788f * v.x)); v.y = 0.5f * v.y * (1.f + erff(v.y * 0.7071f));
  x[i] = __float22half2_rn(v);
  __half h = __low2half(x[i]); h = sqrt(abs(h)) + log(h) * pow(h, 2.0f) + max(h, __float2half(0.f)) + fma(h, h, h) + ceil(h) + std::exp(h);
  x[i].y = h > __half(1) ? h : -h; x[i].x += __half(2) * h; x[i].x *= h;
  if (isnan(h) || isinf(__bfloat162float(b[i].x)) || signbit(b[i].x)) x[i] = __half2half2(hrcp(h));
}
int main() {
  std::vector<__half> h(1024); for (auto& v : h) v = __float2half(0.5f); float err = 0;
  for (auto v : h) { err = std::max(err, std::fabs(__half2float(v) - 0.5f)); err += fabs(v - __half(0.5f)); std::cout << (float)v << std::abs((float)v); }
  std::vector<hip_bfloat16> o(4, hip_bfloat16(1.0f)); std::vector<__hip_bfloat16> q(4); q[0] = 1.0f; q[1] = q[0] * q[0] + __hip_bfloat16(2.0f);
  std::cout << std::fabs((float)q[1] - std::pow(2.f, 1.f)) << (q[0] < q[1]) << std::isnan(q[1]);
  __half *x, *y; hipMalloc(&x, 2048); hipMalloc(&y, 2048);
  softmax<__half, 256><<<1, 256>>>(x, y, 1024); softmax<float, 128><<<1, 128>>>((float*)x, (float*)y, 1); softmax<__hip_bfloat16, 64><<<1, 64>>>((__hip_bfloat16*)x, (__hip_bfloat16*)y, 1);
}
