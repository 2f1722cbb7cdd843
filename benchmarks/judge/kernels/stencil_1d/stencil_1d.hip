// Moving weighted sum of nine elements through LDS; elements outside the array are zero.
#include <hip/hip_runtime.h>

#define BLOCK 256
#define RADIUS 4

extern "C" __global__ void stencil_1d(const float* input, const float* weights, float* output, int n) {
  __shared__ float line[BLOCK + 2 * RADIUS];
  int t = threadIdx.x;
  long first = (long)blockIdx.x * BLOCK - RADIUS;
  for (int i = t; i < BLOCK + 2 * RADIUS; i += BLOCK) {
    long place = first + i;
    line[i] = place >= 0 && place < n ? input[place] : 0.0f;
  }
  __syncthreads();
  long place = (long)blockIdx.x * BLOCK + t;
  if (place >= n) return;
  float sum = 0.0f;
  for (int i = 0; i <= 2 * RADIUS; ++i) sum += weights[i] * line[t + i];
  output[place] = sum;
}
