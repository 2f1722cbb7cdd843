// The last workgroup adds all sums and resets the counter by a plain store, behind the atomics that it saw; likewise a counter in LDS.
#include "../program.h"
__global__ void total(const int *in, volatile int *sums, unsigned *done, int *out) {
  __shared__ unsigned waves;
  __shared__ int tile[256], is_last;
  int t = threadIdx.x;
  if (t == 0) waves = 0;
  tile[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  if (t % 64 == 0) {
    int sum = 0;
    for (int k = 0; k < 64; k++) sum += tile[t + k];
    tile[t] = sum;
    __threadfence_block();
    if (atomicAdd(&waves, 1u) == 3) waves = 0;
  }
  __syncthreads();
  if (t == 0) {
    sums[blockIdx.x] = tile[0] + tile[64] + tile[128] + tile[192];
    __threadfence();
    is_last = atomicInc(done, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  if (t == 0) {
    int sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += sums[k];
    *out = sum;
    *done = waves;
  }
}
int main() {
  int *in = device(std::vector<int>(16 * 256, 1)), *sums = device(std::vector<int>(16)), *out = device(std::vector<int>(1));
  unsigned *done = device(std::vector<unsigned>(1));
  for (int k = 0; k < 2; k++) total<<<16, 256>>>(in, sums, done, out);
  bool right = host(out, 1)[0] == 16 * 256 && host(done, 1)[0] == 0;
  HIP(hipFree(in));
  HIP(hipFree(sums));
  HIP(hipFree(out));
  HIP(hipFree(done));
  return ended(right);
}
