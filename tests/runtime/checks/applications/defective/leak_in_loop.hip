// Each step allocates scratch memory, an event and a stream; only the first step's are released.
#include "../../program.h"
__global__ void scale(float *values, float *scratch) {
  scratch[threadIdx.x] = 2 * values[threadIdx.x];
  values[threadIdx.x] = scratch[threadIdx.x];
}
int main() {
  float *values = device(std::vector<float>(256, 1));
  for (int step = 0; step < 3; step++) {
    float *scratch;
    hipEvent_t event;
    hipStream_t stream;
    HIP(hipMalloc(&scratch, 256 * sizeof(float)));  // DEFECT memory_leak
    HIP(hipEventCreate(&event));                    // DEFECT event_leak
    HIP(hipStreamCreate(&stream));                  // DEFECT stream_leak
    scale<<<1, 256, 0, stream>>>(values, scratch);
    HIP(hipEventRecord(event, stream));
    HIP(hipEventSynchronize(event));
    if (step) continue;
    HIP(hipFree(scratch));
    HIP(hipEventDestroy(event));
    HIP(hipStreamDestroy(stream));
  }
  HIP(hipFree(values));
  return ended(true);
}
