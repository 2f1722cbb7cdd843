// rocm-perf launch: {"grid": ["min(ceil_div(n, 1024), 304)"], "block": [256]}
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void total(const float* __restrict__ input, float* __restrict__ sum, int n) {
  __shared__ float of_wave[4];
  float value = 0.0f;
#pragma unroll 4
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) value += input[i];
  for (int d = 32; d > 0; d >>= 1) value += __shfl_xor(value, d);
  if (threadIdx.x % 64 == 0) of_wave[threadIdx.x / 64] = value;
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, of_wave[0] + of_wave[1] + of_wave[2] + of_wave[3]);
}
