#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <cstdio>
#include <cmath>
#include <algorithm>
#include <vector>
using bf16 = __hip_bfloat16;
__device__ __forceinline__ float warp_sum(float v) { for (int o = 32; o > 0; o >>= 1) v += __shfl_xor(v, o); return v; }
__global__ void rmsnorm(const __hip_bfloat16* x, const __hip_bfloat16* w, __hip_bfloat16* y, int d, float eps) {
  const __hip_bfloat16* row = x + blockIdx.x * d;
  float s = 0.f; __hip_bfloat16 amax = __float2bfloat16(0.f);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    float v = __bfloat162float(row[i]); s += v * v;
    amax = max(amax, fabs(row[i]));
    amax = __hmax(amax, __habs(row[i]));
  }
  s = warp_sum(s);
  float r = rsqrtf(s / d + eps);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    bf16 v = row[i] * w[i];
    v = v * __float2bfloat16(r);
    v += exp(v) + sqrt(fabs(v)) + pow(v, row[i]) + std::max(v, row[i]) + fmax(v, w[i]) + std::abs(v) + tanh(v);
    if (isnan(v) || std::isinf(v) || !isfinite(v)) v = __float2bfloat16(0.0f);
    y[blockIdx.x * d + i] = v;
  }
  __hip_bfloat162 p = reinterpret_cast<const __hip_bfloat162*>(row)[threadIdx.x];
  p = __hmul2(p, p); p = __hfma2(p, p, __bfloat162bfloat162(amax));
  float2 f = __bfloat1622float2(p);
  if (f.x > 1e30f) printf("overflow in row %d: %f\n", (int)blockIdx.x, f.y);
}
int main() {
  int rows = 128, d = 1024;
  std::vector<__hip_bfloat16> h(rows * d);
  for (size_t i = 0; i < h.size(); ++i) h[i] = __float2bfloat16((float)rand() / RAND_MAX);
  float worst = 0.f;
  for (auto v : h) { worst = std::max(worst, (float)fabs(v)); if (fabs(v - h[0]) > 1e-2) printf("%f\n", (float)v); }
  __hip_bfloat16 *x, *w, *y;
  hipMalloc(&x, rows * d * 2); hipMalloc(&w, d * 2); hipMalloc(&y, rows * d * 2);
  rmsnorm<<<rows, 64>>>(x, w, y, d, 1e-6f);
  hipDeviceSynchronize();
  return std::isnan(h[0]);
}
