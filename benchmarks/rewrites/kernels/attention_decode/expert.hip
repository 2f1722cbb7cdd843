// rocm-perf launch: {"grid": ["heads"], "block": [1024]}
// Sixteen wavefronts share the steps of a head; a quarter of a wavefront computes one score with loads of four elements.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(1024) void decode(const float* __restrict__ query, const float* __restrict__ keys,
                                                          const float* __restrict__ values, float* __restrict__ output, int heads,
                                                          int steps) {
  __shared__ float tops[64], totals[64], sums[64][65];
  int head = blockIdx.x, group = threadIdx.x / 16, part = threadIdx.x % 16;
  float q[4], sum[4] = {}, largest = -INFINITY, total = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) q[j] = query[head * 64 + part * 4 + j] * 0.125f;
  const float* key = keys + (size_t)head * steps * 64 + part * 4;
  const float* value = values + (size_t)head * steps * 64 + part * 4;
#pragma unroll 4
  for (int step = group; step < steps; step += 64) {
    float score = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) score += q[j] * key[(size_t)step * 64 + j];
    for (int d = 8; d > 0; d >>= 1) score += __shfl_xor(score, d);
    float top = fmaxf(largest, score);
    bool none = top == -INFINITY && step > 0;  // no weight, unless it is the first step of a head, as in the naive version
    float old = none ? 0.0f : expf(largest - top), now = none ? 0.0f : expf(score - top);
    total = total * old + now;
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] = sum[j] * old + now * value[(size_t)step * 64 + j];
    largest = top;
  }
  if (part == 0) {
    tops[group] = largest;
    totals[group] = total;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) sums[group][part * 4 + j] = sum[j];
  __syncthreads();
  if (threadIdx.x >= 64) return;
  float top = tops[threadIdx.x];
  for (int d = 32; d > 0; d >>= 1) top = fmaxf(top, __shfl_xor(top, d));
  float all = 0.0f, result = 0.0f;
  for (int g = 0; g < 64; ++g) {
    float weight = tops[g] == -INFINITY ? 0.0f : expf(tops[g] - top);
    all += totals[g] * weight;
    result += sums[g][threadIdx.x] * weight;
  }
  output[head * 64 + threadIdx.x] = result / all;
}
