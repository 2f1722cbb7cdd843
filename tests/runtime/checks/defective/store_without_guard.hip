// The last workgroup writes past the end: the guard is missing.
#include "../program.h"
__global__ void fill(int *out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = 7;  // DEFECT out_of_bounds
}
int main() {
  int *out = device(std::vector<int>(1000));
  fill<<<4, 256>>>(out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(out));
}
