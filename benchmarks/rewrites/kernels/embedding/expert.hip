// rocm-perf launch: {"grid": ["ceil_div(tokens, 4)"], "block": [256]}
// One wavefront per token, loads of four elements.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void embedding(const float* __restrict__ table, const int* __restrict__ ids,
                                                            float* __restrict__ output, int tokens, int width) {
  int token = blockIdx.x * 4 + threadIdx.x / 64, lane = threadIdx.x % 64;
  if (token >= tokens) return;
  const float* from = table + (size_t)ids[token] * width;
  float* to = output + (size_t)token * width;
  int done = 0;
  if ((((size_t)from | (size_t)to) & 15) == 0) {
    for (int j = lane; j < width / 4; j += 64) ((float4*)to)[j] = ((const float4*)from)[j];
    done = width / 4 * 4;
  }
  for (int j = done + lane; j < width; j += 64) to[j] = from[j];
}
