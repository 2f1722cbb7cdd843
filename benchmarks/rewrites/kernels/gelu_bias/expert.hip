// rocm-perf launch: {"grid": ["ceil_div(rows * cols, 1024)"], "block": [256]}
// Four consecutive elements per work-item.
#include <hip/hip_runtime.h>

__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

extern "C" __global__ __launch_bounds__(256) void gelu_bias(const float* __restrict__ input, const float* __restrict__ bias,
                                                            float* __restrict__ output, int n, int cols) {
  int i = (blockIdx.x * 256 + threadIdx.x) * 4;
  if (i + 4 <= n && cols % 4 == 0 && (((size_t)input | (size_t)bias | (size_t)output) & 15) == 0) {
    float4 x = *(const float4*)(input + i), b = *(const float4*)(bias + i % cols);
    *(float4*)(output + i) = make_float4(gelu(x.x + b.x), gelu(x.y + b.y), gelu(x.z + b.z), gelu(x.w + b.w));
    return;
  }
  for (int k = i; k < i + 4 && k < n; ++k) output[k] = gelu(input[k] + bias[k % cols]);
}
