// Occupancy queries and launch bounds: the suggested block size is used for a launch; attributes of kernels.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(code)                                                                   \
  {                                                                                   \
    hipError_t c = (code);                                                            \
    if (c != hipSuccess) printf("%s: %s\n", #code, hipGetErrorString(c)), exit(1);    \
  }

__global__ void light(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 2 * x[i] + 1;
}

__global__ void __launch_bounds__(128) bounded(float* x, int n) {
  __shared__ float tile[128][60];  // 30 KiB: two blocks fit in 64 KiB of LDS
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < 60; k++) tile[threadIdx.x][k] = i < n ? x[i] + k : 0;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 60; k++) sum += tile[blockDim.x - 1 - threadIdx.x][k];
  if (i < n) x[i] = sum;
}

int main() {
  int grid = 0, block = 0, many = 0, few = 0, with_dynamic = 0;
  CHECK(hipOccupancyMaxPotentialBlockSize(&grid, &block, light, 0, 0));
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&many, light, 256, 0));
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&few, bounded, 128, 0));
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&with_dynamic, light, 256, 20000));
  hipFuncAttributes attributes;
  CHECK(hipFuncGetAttributes(&attributes, reinterpret_cast<const void*>(bounded)));
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));

  const int n = 10000;
  std::vector<float> x(n);
  for (int i = 0; i < n; i++) x[i] = float(i);
  float* device;
  CHECK(hipMalloc(&device, n * sizeof(float)));
  CHECK(hipMemcpy(device, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
  light<<<(n + block - 1) / block, block>>>(device, n);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(x.data(), device, n * sizeof(float), hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += x[i] != 2 * float(i) + 1;
  bounded<<<2, 128>>>(device, 256);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(x.data(), device, 256 * sizeof(float), hipMemcpyDeviceToHost));
  for (int i = 0; i < 256; i++) wrong += x[i] != 60 * (2.0f * (i / 128 * 128 + 127 - i % 128) + 1) + 1770;
  CHECK(hipFree(device));

  printf("occupancy: block size %d, blocks per unit %d, %d, %d\n", block, many, few, with_dynamic);
  printf("bounded: %zu bytes of LDS, at most %d threads\n", attributes.sharedSizeBytes, attributes.maxThreadsPerBlock);
  printf("wavefront of %d, %d wrong\n", properties.warpSize, wrong);
  const bool plausible = few == 2 && many >= few && with_dynamic == 3 && attributes.sharedSizeBytes == 30720 && attributes.maxThreadsPerBlock == 128;
  return wrong == 0 && plausible && grid > 0 ? 0 : 1;
}
