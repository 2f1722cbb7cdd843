// rocm-perf launch: {"grid": ["ceil_div(rows, 4)"], "block": [256]}
#include <hip/hip_runtime.h>

__device__ float of_wave(float value) {
  for (int d = 32; d > 0; d >>= 1) value += __shfl_xor(value, d);
  return value;
}

extern "C" __global__ __launch_bounds__(256) void layernorm_rows(const float* __restrict__ input, const float* __restrict__ gamma,
                                                                 const float* __restrict__ beta, float* __restrict__ output, int rows,
                                                                 int cols, float epsilon) {
  int lane = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float* out = output + (size_t)row * cols;
  float sum = 0.0f, squares = 0.0f;
  if (cols <= 1024) {
    float kept[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      kept[k] = lane + 64 * k < cols ? in[lane + 64 * k] : 0.0f;
      sum += kept[k];
    }
    float mean = of_wave(sum) / cols;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      kept[k] -= mean;
      squares += lane + 64 * k < cols ? kept[k] * kept[k] : 0.0f;
    }
    float scale = rsqrtf(of_wave(squares) / cols + epsilon);
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      int i = lane + 64 * k;
      if (i < cols) out[i] = kept[k] * scale * gamma[i] + beta[i];
    }
    return;
  }
  for (int i = lane; i < cols; i += 64) sum += in[i];
  float mean = of_wave(sum) / cols;
  for (int i = lane; i < cols; i += 64) squares += (in[i] - mean) * (in[i] - mean);
  float scale = rsqrtf(of_wave(squares) / cols + epsilon);
  for (int i = lane; i < cols; i += 64) out[i] = (in[i] - mean) * scale * gamma[i] + beta[i];
}
