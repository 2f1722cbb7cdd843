// Managed memory: host and kernel take turns, with an event, a stream and the device as the synchronisation.
#include "../../program.h"
constexpr int N = 1000;
__global__ void twice(int *values) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < N) values[i] *= 2;
}
int main() {
  int *values, *other;
  HIP(hipMallocManaged(&values, N * sizeof(int)));
  HIP(hipMallocManaged(&other, N * sizeof(int)));
  hipStream_t stream;
  hipEvent_t event;
  HIP(hipStreamCreate(&stream));
  HIP(hipEventCreate(&event));
  for (int i = 0; i < N; i++) values[i] = i, other[i] = 0;
  twice<<<4, 256, 0, stream>>>(values);
  HIP(hipEventRecord(event, stream));
  for (int i = 0; i < N; i++) other[i] = i;  // not used by the kernel
  HIP(hipEventSynchronize(event));
  for (int i = 0; i < N; i++) values[i] += 1;
  twice<<<4, 256, 0, stream>>>(values);
  while (hipStreamQuery(stream) == hipErrorNotReady) {
  }
  bool right = values[10] == 42;
  twice<<<4, 256, 0, stream>>>(values);
  HIP(hipDeviceSynchronize());
  right = right && values[10] == 84 && other[10] == 10;
  HIP(hipEventDestroy(event));
  HIP(hipStreamDestroy(stream));
  HIP(hipFree(values));
  HIP(hipFree(other));
  return ended(right);
}
