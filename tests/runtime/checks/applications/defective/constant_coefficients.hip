// Stencil with coefficients in constant memory: the radius is larger than the table.
#include "../../program.h"
__constant__ float coefficients[4] = {0.4f, 0.2f, 0.06f, 0.04f};
__device__ float canary[64];
__global__ void stencil(const float *in, float *out, int n, int radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < radius || i >= n - radius) return;
  float sum = coefficients[0] * in[i];
  for (int r = 1; r <= radius; r++) sum += coefficients[r] * (in[i - r] + in[i + r]);  // DEFECT out_of_bounds
  out[i] = sum + canary[i % 64];
}
int main() {
  const int n = 1024;
  float *in = device(std::vector<float>(n, 1)), *out;
  HIP(hipMalloc(&out, n * sizeof(float)));
  stencil<<<n / 256, 256>>>(in, out, n, 4);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
