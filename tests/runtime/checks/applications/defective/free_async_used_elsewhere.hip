// Memory of the pool is freed on one stream while a kernel on another stream still uses it.
#include "../../program.h"
__global__ void fill(int *to) { to[blockIdx.x * 256 + threadIdx.x] = 1; }
__global__ void add(int *to) { to[blockIdx.x * 256 + threadIdx.x] += 2; }  // DEFECT use_after_free|stream_race
int main() {
  hipStream_t first, second;
  HIP(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  hipEvent_t filled;
  HIP(hipEventCreate(&filled));
  int *memory;
  HIP(hipMallocAsync(reinterpret_cast<void **>(&memory), 16 * 256 * sizeof(int), first));
  fill<<<16, 256, 0, first>>>(memory);
  HIP(hipEventRecord(filled, first));
  HIP(hipFreeAsync(memory, first));  // DEFECT use_after_free|stream_race
  HIP(hipStreamWaitEvent(second, filled, 0));
  add<<<16, 256, 0, second>>>(memory);  // DEFECT use_after_free|stream_race
  (void)hipDeviceSynchronize();
  HIP(hipEventDestroy(filled));
  HIP(hipStreamDestroy(first));
  HIP(hipStreamDestroy(second));
  return 0;
}
