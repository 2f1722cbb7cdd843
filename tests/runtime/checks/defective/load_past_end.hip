// A stencil reads one element past the end of its input.
#include "../program.h"
__global__ void differences(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i + 1] - in[i];  // DEFECT out_of_bounds
}
int main() {
  const int n = 1000;
  float *in = device(std::vector<float>(n, 1.0f)), *out = device(std::vector<float>(n));
  differences<<<(n + 255) / 256, 256>>>(in, out, n);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
}
