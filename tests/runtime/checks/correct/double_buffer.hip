// Two tiles in LDS: one is filled while the other one is read, with one barrier per step.
#include "../program.h"
__global__ void tiles(const float *in, float *out, int count) {
  __shared__ float tile[2][256];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < count; k++) {
    tile[k % 2][t] = in[k * 256 + t];
    __syncthreads();
    sum += tile[k % 2][255 - t];
  }
  out[t] = sum;
}
int main() {
  float *in = device(std::vector<float>(2048, 1.0f)), *out;
  HIP(hipMalloc(&out, 256 * sizeof(float)));
  tiles<<<1, 256>>>(in, out, 8);
  bool right = host(out, 256)[3] == 8;
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
