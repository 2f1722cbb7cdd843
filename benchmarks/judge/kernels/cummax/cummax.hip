// Cumulative maximum of each row and its position: the last of equal elements. From the first NaN on, the maximum is NaN, and its
// position that of the last NaN so far.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

__device__ bool replaces(float later, float earlier) { return isnan(later) || later >= earlier; }

extern "C" __global__ void cummax(const __half* input, __half* maxima, int* positions, int cols) {
  int lane = threadIdx.x;  // one wavefront per row
  size_t base = (size_t)blockIdx.x * cols;
  float carried = -INFINITY;
  int carried_place = 0;
  for (int first = 0; first < cols; first += 64) {
    int i = first + lane;
    float value = i < cols ? __half2float(input[base + i]) : -INFINITY;
    int place = i;
    for (int distance = 1; distance < 64; distance <<= 1) {
      float before = __shfl_up(value, distance);
      int before_place = __shfl_up(place, distance);
      if (lane >= distance && !replaces(value, before)) {
        value = before;
        place = before_place;
      }
    }
    if (!replaces(value, carried)) {
      value = carried;
      place = carried_place;
    }
    if (i < cols) {
      maxima[base + i] = __float2half(value);
      positions[base + i] = place;
    }
    carried = __shfl(value, 63);
    carried_place = __shfl(place, 63);
  }
}
