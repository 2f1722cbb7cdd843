// Position of the largest element of each row, the first one if there are several; one workgroup per row. Rows without a
// number greater than -infinity (for example, NaN only) have position 0.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void argmax(const float* input, int* position, int cols) {
  __shared__ float values[BLOCK];
  __shared__ int places[BLOCK];
  const float* row = input + (size_t)blockIdx.x * cols;
  int t = threadIdx.x;
  float best = -INFINITY;
  int where = cols;
  for (int i = t; i < cols; i += BLOCK) {
    if (row[i] > best) {
      best = row[i];
      where = i;
    }
  }
  values[t] = best;
  places[t] = where;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride >>= 1) {
    if (t < stride) {
      float other = values[t + stride];
      int place = places[t + stride];
      if (other > values[t] || (other == values[t] && place < places[t])) {
        values[t] = other;
        places[t] = place;
      }
    }
    __syncthreads();
  }
  if (t == 0) position[blockIdx.x] = places[0] < cols ? places[0] : 0;
}
