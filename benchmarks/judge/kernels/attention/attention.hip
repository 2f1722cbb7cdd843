// Attention of one query per head over a cache of keys and values; one workgroup per head, scores in LDS in parts.
#include <hip/hip_runtime.h>

#define HEAD 64
#define PART 128

extern "C" __global__ void attention(const float* query, const float* keys, const float* values, float* output, float scale,
                                     int length) {
  __shared__ float q[HEAD];
  __shared__ float scores[PART];
  int t = threadIdx.x;  // HEAD work-items
  size_t head = blockIdx.x;
  const float* k = keys + head * length * HEAD;
  const float* v = values + head * length * HEAD;
  q[t] = query[head * HEAD + t] * scale;
  __syncthreads();
  float largest = -INFINITY, total = 0.0f, sum = 0.0f;
  for (int base = 0; base < length; base += PART) {
    int count = length - base < PART ? length - base : PART;
    for (int i = t; i < count; i += HEAD) {
      float score = 0.0f;
      for (int d = 0; d < HEAD; ++d) score += q[d] * k[(size_t)(base + i) * HEAD + d];
      scores[i] = score;
    }
    __syncthreads();
    float peak = largest;
    for (int i = 0; i < count; ++i) peak = fmaxf(peak, scores[i]);
    float factor = expf(largest - peak);
    total *= factor;
    sum *= factor;
    for (int i = 0; i < count; ++i) {
      float weight = expf(scores[i] - peak);
      total += weight;
      sum += weight * v[(size_t)(base + i) * HEAD + t];
    }
    largest = peak;
    __syncthreads();
  }
  output[head * HEAD + t] = sum / total;
}
