// hipMemcpy runs on the null stream, which does not wait for a stream that was created as non-blocking.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

#define HIP_ASSERT(x) (((x) == hipSuccess) ? (void)0 : std::abort())

__global__ void saxpy(float a, const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = a * x[i] + y[i];  // DEFECT stream_race
}

int main() {
  const int n = 4096;
  std::vector<float> x(n, 1.0f), y(n, 2.0f);
  float *dx, *dy;
  hipStream_t stream;
  HIP_ASSERT(hipMalloc(&dx, n * sizeof(float)));
  HIP_ASSERT(hipMalloc(&dy, n * sizeof(float)));
  HIP_ASSERT(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_ASSERT(hipMemcpyWithStream(dx, x.data(), n * sizeof(float), hipMemcpyHostToDevice, stream));
  HIP_ASSERT(hipMemcpyWithStream(dy, y.data(), n * sizeof(float), hipMemcpyHostToDevice, stream));
  saxpy<<<8, 256, 0, stream>>>(2.0f, dx, dy, n);  // DEFECT stream_race
  HIP_ASSERT(hipMemcpy(y.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost));  // DEFECT stream_race
  std::printf("%g\n", y[7]);
  HIP_ASSERT(hipStreamDestroy(stream));
  HIP_ASSERT(hipFree(dx));
  HIP_ASSERT(hipFree(dy));
}
