#include <hip/hip_runtime.h>

// One wavefront per head: the product with each key is reduced across lanes, one step after the other.
extern "C" __global__ void decode(const float* query, const float* keys, const float* values, float* output, int heads, int steps) {
  __shared__ float partial[64];
  int head = blockIdx.x, lane = threadIdx.x;
  float q = query[head * 64 + lane], largest = -INFINITY, total = 0.0f, sum = 0.0f;
  for (int step = 0; step < steps; ++step) {
    size_t at = ((size_t)head * steps + step) * 64 + lane;
    partial[lane] = q * keys[at] * 0.125f;
    __syncthreads();
    for (int stride = 32; stride > 0; stride >>= 1) {
      if (lane < stride) partial[lane] += partial[lane + stride];
      __syncthreads();
    }
    float score = partial[0];
    __syncthreads();
    float top = fmaxf(largest, score), old = expf(largest - top), now = expf(score - top);
    total = total * old + now;
    sum = sum * old + now * values[at];
    largest = top;
  }
  output[head * 64 + lane] = sum / total;
}
