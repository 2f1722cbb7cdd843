// Only a part of a vector was copied to the device; the dot product uses all of it.
#include "../program.h"
__global__ void dot(const float *a, const float *b, float *out, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[i] * b[i];  // DEFECT memory_uninitialised
  atomicAdd(out, sum);
}
int main() {
  std::vector<float> values(512, 2.0f);
  float *a = device(values), *out = device(std::vector<float>(1)), *b;
  HIP(hipMalloc(&b, 512 * sizeof *b));
  HIP(hipMemcpy(b, values.data(), 500 * sizeof *b, hipMemcpyHostToDevice));
  dot<<<1, 64>>>(a, b, out, 512);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(a));
  HIP(hipFree(b));
  HIP(hipFree(out));
}
