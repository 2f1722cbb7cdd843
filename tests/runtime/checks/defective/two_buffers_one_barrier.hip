// A tile is overwritten while other wavefronts still read it: the second barrier of the loop is missing.
#include "../program.h"
__global__ void tiles(const float *in, float *out, int count) {
  __shared__ float tile[256];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < count; k++) {
    tile[t] = in[k * 256 + t];  // DEFECT lds_race
    __syncthreads();
    sum += tile[255 - t];  // DEFECT lds_race
  }
  out[t] = sum;
}
int main() {
  float *in = device(std::vector<float>(1024, 1.0f)), *out = device(std::vector<float>(256));
  tiles<<<1, 256>>>(in, out, 4);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
}
