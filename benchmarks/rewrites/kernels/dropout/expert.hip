// rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}
#include <hip/hip_runtime.h>

__device__ float dropped(float value, unsigned int i, unsigned int seed, float keep) {
  unsigned int x = i * 0x9E3779B9u + seed;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x ^= x >> 16;
  return (float)(x >> 8) * 5.9604644775390625e-8f < keep ? value / keep : 0.0f;
}

extern "C" __global__ __launch_bounds__(256) void dropout(const float* __restrict__ input, float* __restrict__ output, int n,
                                                          unsigned int seed, float keep) {
  int i = (blockIdx.x * 256 + threadIdx.x) * 4;
  if (i + 4 <= n && (((size_t)input | (size_t)output) & 15) == 0) {
    float4 v = *(const float4*)(input + i);
    *(float4*)(output + i) = make_float4(dropped(v.x, i, seed, keep), dropped(v.y, i + 1, seed, keep), dropped(v.z, i + 2, seed, keep),
                                         dropped(v.w, i + 3, seed, keep));
    return;
  }
  for (int k = i; k < i + 4 && k < n; ++k) output[k] = dropped(input[k], k, seed, keep);
}
