// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
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

extern "C" __global__ void top2_rows(const float* __restrict__ input, float* __restrict__ output, int rows, int cols) {
  int lane = threadIdx.x % 64, place = blockIdx.x * 4 + threadIdx.x / 64;
  if (place >= rows) return;
  const float* row = input + (size_t)place * cols;
  float first = -INFINITY, second = -INFINITY;
#pragma unroll 8
  for (int i = lane; i < cols; i += 64) inserted(row[i], first, second);
  for (int distance = 32; distance > 0; distance >>= 1) {
    float other_first = __shfl_down(first, distance);
    float other_second = __shfl_down(second, distance);
    inserted(other_first, first, second);
    inserted(other_second, first, second);
  }
  if (lane == 0) {
    output[(size_t)place * 2] = first;
    output[(size_t)place * 2 + 1] = second;
  }
}
