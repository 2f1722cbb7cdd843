// Jacobi iteration whose start vector is never written.
#include "../../program.h"
__global__ void jacobi(const float *x, float *next, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float left = i > 0 ? x[i - 1] : 0, right = i + 1 < n ? x[i + 1] : 0;  // DEFECT memory_uninitialised
  float value = 0.5f * (b[i] + left + right);                          // DEFECT memory_uninitialised
  if (fabsf(value - x[i]) > 1e-6f) next[i] = value;                     // DEFECT memory_uninitialised
  else next[i] = x[i];
}
int main() {
  const int n = 1000;
  float *x, *next, *b = device(std::vector<float>(n, 1));
  HIP(hipMalloc(&x, n * sizeof(float)));
  HIP(hipMalloc(&next, n * sizeof(float)));
  jacobi<<<4, 256>>>(x, next, b, n);
  jacobi<<<4, 256>>>(next, x, b, n);
  HIP(hipDeviceSynchronize());
  for (float *memory : {x, next, b}) HIP(hipFree(memory));
  return ended(true);
}
