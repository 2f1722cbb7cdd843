// Tiles of 33 x 32 work-items: the launch fails, and its error is not looked at.
#include "../../program.h"
__global__ void transpose(const float *in, float *out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  if (x < n && y < n) out[x * n + y] = in[y * n + x];
}
int main() {
  const int n = 64;
  float *in = device(std::vector<float>(n * n, 1)), *out = device(std::vector<float>(n * n, 0));
  transpose<<<dim3(2, 2), dim3(33, 32)>>>(in, out, n);  // DEFECT bad_geometry
  (void)hipDeviceSynchronize();
  (void)hipFree(in);
  (void)hipFree(out);
  return 0;
}
