// rocm-perf launch: {"grid": ["min(ceil_div(n, 4096), 304)"], "block": [256]}
// Bins of each workgroup in LDS, loads of four values, then one atomic per bin and workgroup.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void histogram(const unsigned int* __restrict__ values, unsigned int* __restrict__ bins,
                                                            int n) {
  __shared__ unsigned int local[BINS];
  for (int b = threadIdx.x; b < BINS; b += 256) local[b] = 0;
  __syncthreads();
  int item = blockIdx.x * 256 + threadIdx.x, stride = gridDim.x * 256;
  int fours = ((size_t)values & 15) == 0 ? n / 4 : 0;
#pragma unroll 4
  for (int i = item; i < fours; i += stride) {
    uint4 v = ((const uint4*)values)[i];
    atomicAdd(&local[v.x % BINS], 1u);
    atomicAdd(&local[v.y % BINS], 1u);
    atomicAdd(&local[v.z % BINS], 1u);
    atomicAdd(&local[v.w % BINS], 1u);
  }
  for (int i = 4 * fours + item; i < n; i += stride) atomicAdd(&local[values[i] % BINS], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += 256)
    if (local[b]) atomicAdd(&bins[b], local[b]);
}
