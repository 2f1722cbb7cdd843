// Half of the LDS that is summed was not written.
#include "../program.h"
__global__ void sum(const int *in, int *out) {
  __shared__ int tile[128];
  int t = threadIdx.x;
  if (t < 64) tile[t] = in[t];
  __syncthreads();
  atomicAdd(out, tile[t]);  // DEFECT lds_uninitialised
}
int main() {
  int *in = device(std::vector<int>(64, 1)), *out = device(std::vector<int>(1));
  sum<<<1, 128>>>(in, out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
}
