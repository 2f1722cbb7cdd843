// A reduction in LDS without a barrier between its steps.
#include "../program.h"
__global__ void sum(const int *in, int *out) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[t];
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) part[t] += part[t + half];  // DEFECT lds_race
  }
  if (t == 0) *out = part[0];
}
int main() {
  int *in = device(std::vector<int>(256, 1)), *out = device(std::vector<int>(1));
  sum<<<1, 256>>>(in, out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
}
