// Reduction ported from wavefronts of 128: the last steps run without barriers although two wavefronts take part.
#include "../../program.h"
__global__ void sum(const int *in, int *out) {
  __shared__ volatile int tile[256];
  int t = threadIdx.x;
  tile[t] = in[blockIdx.x * 512 + t] + in[blockIdx.x * 512 + 256 + t];
  __syncthreads();
  if (t < 128) {
    tile[t] += tile[t + 128];  // DEFECT lds_race
    tile[t] += tile[t + 64];   // DEFECT lds_race
  }
  if (t < 32) {
    tile[t] += tile[t + 32];
    tile[t] += tile[t + 16];
    tile[t] += tile[t + 8];
    tile[t] += tile[t + 4];
    tile[t] += tile[t + 2];
    tile[t] += tile[t + 1];
  }
  if (t == 0) atomicAdd(out, tile[0]);
}
int main() {
  const int n = 8 * 512;
  int *in = device(std::vector<int>(n, 1)), *out = device(std::vector<int>(1));
  sum<<<8, 256>>>(in, out);
  host(out, 1);
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
