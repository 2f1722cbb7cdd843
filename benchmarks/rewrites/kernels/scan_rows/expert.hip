// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
// One wavefront per row; each lane adds four elements, then the sums of lanes are scanned by shuffles.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void scan_rows(const float* __restrict__ input, float* __restrict__ output, int rows,
                                                            int cols) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float* out = output + (size_t)row * cols;
  float before = 0.0f;
  for (int base = 0; base < cols; base += 256) {
    float v[4], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int i = base + lane * 4 + j;
      sum += i < cols ? in[i] : 0.0f;
      v[j] = sum;
    }
    float scanned = sum;
    for (int d = 1; d < 64; d <<= 1) {
      float other = __shfl_up(scanned, d);
      if (lane >= d) scanned += other;
    }
    float start = before + scanned - sum;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int i = base + lane * 4 + j;
      if (i < cols) out[i] = start + v[j];
    }
    before += __shfl(scanned, 63);
  }
}
