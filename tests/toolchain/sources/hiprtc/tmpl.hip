#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#include <cstdint>
#endif
#include <hip/hip_fp16.h>
namespace kernels {
template <typename T, int VPT> __global__ void vec(const T* __restrict__ in, T* __restrict__ out, uint64_t n) {
#pragma unroll
  for (int k = 0; k < VPT; ++k) { uint64_t i = (uint64_t)(blockIdx.x * VPT + k) * blockDim.x + threadIdx.x; if (i < n) out[i] = in[i] * T(2); }
}
template __global__ void vec<float, 4>(const float*, float*, uint64_t);
template __global__ void vec<_Float16, 2>(const _Float16*, _Float16*, uint64_t);
}
