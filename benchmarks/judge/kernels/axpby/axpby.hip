// out = alpha * x + beta * y, one work-item per element.
#include <hip/hip_runtime.h>

extern "C" __global__ void axpby(const float* x, const float* y, float* out, float alpha, float beta, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (size_t)n) out[i] = alpha * x[i] + beta * y[i];
}
