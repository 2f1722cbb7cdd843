// Inclusive prefix sums of each row of 32-bit integers, which wrap around; one workgroup per row, in steps of its size.
#include <hip/hip_runtime.h>

#define BLOCK 256

extern "C" __global__ void row_scan(const unsigned* input, unsigned* output, int cols) {
  __shared__ unsigned sums[BLOCK];
  const unsigned* row_in = input + (size_t)blockIdx.x * cols;
  unsigned* row_out = output + (size_t)blockIdx.x * cols;
  int t = threadIdx.x;
  unsigned carry = 0;
  for (int base = 0; base < cols; base += BLOCK) {
    int i = base + t;
    sums[t] = i < cols ? row_in[i] : 0u;
    __syncthreads();
    for (int distance = 1; distance < BLOCK; distance <<= 1) {
      unsigned before = t >= distance ? sums[t - distance] : 0u;
      __syncthreads();
      sums[t] += before;
      __syncthreads();
    }
    if (i < cols) row_out[i] = carry + sums[t];
    carry += sums[BLOCK - 1];
    __syncthreads();
  }
}
