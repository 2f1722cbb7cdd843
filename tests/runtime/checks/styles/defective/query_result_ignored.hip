// The event is asked once; the answer "not ready" is ignored and the mapped result is read.
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void work(volatile float *result, int rounds) {
  float x = 1;
  for (int i = 0; i < rounds; i++) x = x * 0.5f + 1;
  result[threadIdx.x] = x;
}

int main() {
  float *host, *mapped;
  hipEvent_t done;
  if (hipHostMalloc((void **)&host, 64 * sizeof(float), hipHostMallocMapped) != hipSuccess) return 1;
  if (hipHostGetDevicePointer((void **)&mapped, host, 0) != hipSuccess || hipEventCreate(&done) != hipSuccess) return 1;
  work<<<1, 64>>>(mapped, 20000);
  if (hipEventRecord(done, nullptr) != hipSuccess) return 1;
  hipError_t state = hipEventQuery(done);
  if (state != hipSuccess && state != hipErrorNotReady) return 1;
  float value = host[3];  // DEFECT host_race
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::printf("%g\n", value);
  (void)hipEventDestroy(done);
  (void)hipHostFree(host);
}
