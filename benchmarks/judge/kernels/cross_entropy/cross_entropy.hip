// Cross-entropy of rows of bfloat16 logits: loss = log(sum(exp(logits))) - logits[label]. Rows with a negative label have loss 0.
#include <hip/hip_runtime.h>

#define BLOCK 256

__device__ float widened(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

extern "C" __global__ void cross_entropy(const unsigned short* logits, const long long* labels, float* loss, float* log_sums, int vocab) {
  __shared__ float shared[BLOCK];
  const unsigned short* row = logits + (size_t)blockIdx.x * vocab;
  int t = threadIdx.x;
  float largest = -INFINITY;
  for (int i = t; i < vocab; i += BLOCK) largest = fmaxf(largest, widened(row[i]));
  shared[t] = largest;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) shared[t] = fmaxf(shared[t], shared[t + stride]);
    __syncthreads();
  }
  float shift = isinf(shared[0]) ? 0.0f : shared[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = t; i < vocab; i += BLOCK) sum += expf(widened(row[i]) - shift);
  shared[t] = sum;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) shared[t] += shared[t + stride];
    __syncthreads();
  }
  if (t == 0) {
    float log_sum = logf(shared[0]) + shift;
    long long label = labels[blockIdx.x];
    log_sums[blockIdx.x] = log_sum;
    loss[blockIdx.x] = label < 0 ? 0.0f : log_sum - widened(row[label]);
  }
}
