// Dynamic LDS is launched with half of the size that the kernel uses.
#include "../program.h"
__global__ void reverse(int *data) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = data[threadIdx.x];  // DEFECT lds_out_of_bounds
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];  // DEFECT lds_out_of_bounds
}
int main() {
  int *data = device(std::vector<int>(256));
  reverse<<<1, 256, 128 * sizeof(int)>>>(data);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(data));
}
