// The two largest elements of each row in descending order (equal elements count twice); one wavefront per row.
#include <hip/hip_runtime.h>

__device__ void inserted(float value, float& first, float& second) {
  if (value > first) {
    second = first;
    first = value;
  } else if (value > second) {
    second = value;
  }
}

extern "C" __global__ void top2(const float* input, float* output, int cols) {
  const float* row = input + (size_t)blockIdx.x * cols;
  float first = -INFINITY, second = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += 64) inserted(row[i], first, second);
  for (int distance = 32; distance > 0; distance >>= 1) {
    float other_first = __shfl_down(first, distance);
    float other_second = __shfl_down(second, distance);
    inserted(other_first, first, second);
    inserted(other_second, first, second);
  }
  if (threadIdx.x == 0) {
    output[(size_t)blockIdx.x * 2] = first;
    output[(size_t)blockIdx.x * 2 + 1] = second;
  }
}
