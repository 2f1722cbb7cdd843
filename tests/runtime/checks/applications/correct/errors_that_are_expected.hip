// The program probes: failures are looked at, and handled.
#include "../../program.h"
__global__ void fill(int *to) { to[threadIdx.x] = 1; }
int main() {
  void *huge = nullptr;
  if (hipMalloc(&huge, size_t(1) << 50) != hipErrorOutOfMemory) return ended(false);
  if (hipGetLastError() != hipErrorOutOfMemory) return ended(false);
  int *memory;
  HIP(hipMalloc(&memory, 64 * sizeof(int)));
  int devices;
  HIP(hipGetDeviceCount(&devices));
  if (hipSetDevice(devices) == hipSuccess) return ended(false);
  (void)hipGetLastError();
  hipEvent_t event;
  HIP(hipEventCreate(&event));
  fill<<<1, 64>>>(memory);
  HIP(hipEventRecord(event, nullptr));
  while (hipEventQuery(event) == hipErrorNotReady) {
  }
  hipError_t peer = hipDeviceEnablePeerAccess(0, 0);
  (void)hipGetLastError();
  hipPointerAttribute_t attributes;
  int local;
  if (hipPointerGetAttributes(&attributes, &local) != hipSuccess) (void)hipGetLastError();
  HIP(hipFree(nullptr));
  HIP(hipEventDestroy(event));
  bool right = host(memory, 64)[63] == 1 && peer != hipSuccess;
  HIP(hipFree(memory));
  return ended(right);
}
