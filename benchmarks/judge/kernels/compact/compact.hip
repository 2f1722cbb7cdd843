// Elements of each row above a threshold, moved to the front in order; `counts` receives their number, the rest is zero.
#include <hip/hip_runtime.h>

extern "C" __global__ void compact(const float* input, float* output, int* counts, float threshold, int cols) {
  const float* row_in = input + (size_t)blockIdx.x * cols;
  float* row_out = output + (size_t)blockIdx.x * cols;
  int lane = threadIdx.x;  // one wavefront
  int count = 0;
  for (int base = 0; base < cols; base += 64) {
    int i = base + lane;
    float value = i < cols ? row_in[i] : 0.0f;
    bool chosen = i < cols && value > threshold;
    unsigned long long chosen_lanes = __ballot(chosen);
    int before = __popcll(chosen_lanes & ((1ull << lane) - 1));
    if (chosen) row_out[count + before] = value;
    count += __popcll(chosen_lanes);
  }
  for (int i = count + lane; i < cols; i += 64) row_out[i] = 0.0f;
  if (lane == 0) counts[blockIdx.x] = count;
}
