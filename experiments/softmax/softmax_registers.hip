// Row softmax that reads its row once: a thread keeps its elements in registers, so that maximum, sum and result come from
// there, and every exponential is computed once. Wavefronts reduce by shuffles. Same signature as softmax.hip; a row that does
// not fit in the registers of a workgroup is read again where it is needed.
#include <hip/hip_runtime.h>

#ifndef BLOCK
#define BLOCK 256
#endif
#define WAVES ((BLOCK + 63) / 64)
#define KEPT 16

template <typename Combine>
__device__ float of_workgroup(float value, float* of_wave, Combine combine) {
  for (int distance = 32; distance > 0; distance >>= 1) value = combine(value, __shfl_xor(value, distance));
  if (threadIdx.x % 64 == 0) of_wave[threadIdx.x / 64] = value;
  __syncthreads();
  value = of_wave[0];
  for (int wave = 1; wave < WAVES; wave++) value = combine(value, of_wave[wave]);
  return value;
}

__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ float added(float a, float b) { return a + b; }

extern "C" __global__ void softmax_kernel(const float* input, float* output, int cols) {
  __shared__ float largest_of_wave[WAVES], sum_of_wave[WAVES];
  const float* row_in = input + (size_t)blockIdx.x * cols;
  float* row_out = output + (size_t)blockIdx.x * cols;
  int lane = threadIdx.x;
  float largest = -INFINITY, sum = 0.0f;

  if (cols <= BLOCK * KEPT) {
    float kept[KEPT];
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      int i = lane + k * BLOCK;
      kept[k] = i < cols ? row_in[i] : -INFINITY;
      largest = fmaxf(largest, kept[k]);
    }
    largest = of_workgroup(largest, largest_of_wave, larger);
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      kept[k] = expf(kept[k] - largest);
      sum += kept[k];
    }
    float scale = 1.0f / of_workgroup(sum, sum_of_wave, added);
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      int i = lane + k * BLOCK;
      if (i < cols) row_out[i] = kept[k] * scale;
    }
    return;
  }

  for (int i = lane; i < cols; i += BLOCK) largest = fmaxf(largest, row_in[i]);
  largest = of_workgroup(largest, largest_of_wave, larger);
  for (int i = lane; i < cols; i += BLOCK) sum += expf(row_in[i] - largest);
  float scale = 1.0f / of_workgroup(sum, sum_of_wave, added);
  for (int i = lane; i < cols; i += BLOCK) row_out[i] = expf(row_in[i] - largest) * scale;
}
