// A kernel uses a buffer that was freed before the launch.
#include "../program.h"
__global__ void scale(float *data) {
  data[threadIdx.x] *= 2;  // DEFECT use_after_free
}
int main() {
  float *data = device(std::vector<float>(256));
  HIP(hipFree(data));
  scale<<<1, 256>>>(data);
  HIP(hipDeviceSynchronize());
}
