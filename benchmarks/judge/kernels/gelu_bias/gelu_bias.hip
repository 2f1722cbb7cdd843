// out = gelu(x + bias) with the error function; half precision in memory, single precision in registers.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ void gelu_bias(const __half* x, const __half* bias, __half* out, int rows, int cols) {
  size_t total = (size_t)rows * cols;
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
    float v = __half2float(x[i]) + __half2float(bias[i % cols]);
    out[i] = __float2half(0.5f * v * (1.0f + erff(v * 0.70710678f)));
  }
}
