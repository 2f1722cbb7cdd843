// 96 KiB of dynamic LDS, as some other GPUs have.
#include "../../program.h"
__global__ void stage(float *values) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < 24 * 1024; i += blockDim.x) tile[i] = values[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 24 * 1024; i += blockDim.x) values[i] = 2 * tile[i];
}
int main() {
  float *values = device(std::vector<float>(24 * 1024, 1));
  (void)hipFuncSetAttribute(reinterpret_cast<const void *>(stage), hipFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
  stage<<<1, 256, 96 * 1024>>>(values);  // DEFECT bad_geometry|too_much_lds|failed_launch
  (void)hipDeviceSynchronize();
  (void)hipFree(values);
  return 0;
}
