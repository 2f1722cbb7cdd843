// The sum of an array: every work-item adds up its share, then all add to one place in LDS, and each workgroup to the result.
#include <hip/hip_runtime.h>

extern "C" __global__ void reduction(const float* values, float* result, int n) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.0f;
  __syncthreads();
  float sum = 0.0f;
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    sum += values[i];
  }
  atomicAdd(&total, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(result, total);
}
