// Half of the lanes of a wavefront skip a barrier and continue.
#include "../program.h"
__global__ void shift(int *data) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t] = data[t];
  if (t < 32) {
    __syncthreads();  // DEFECT divergent_barrier
    data[t] = tile[t + 32];
  } else {
    data[t] = t;
  }
}
int main() {
  int *data = device(std::vector<int>(64));
  shift<<<1, 64>>>(data);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(data));
}
