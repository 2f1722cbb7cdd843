// Stream-ordered memory: freed and allocated again on the same stream, and handed to another stream by an event.
#include "../../program.h"
constexpr int N = 4096;
__global__ void fill(int *to, int value) { to[blockIdx.x * 256 + threadIdx.x] = value; }
__global__ void add(int *to, const int *from) {
  int i = blockIdx.x * 256 + threadIdx.x;
  to[i] += from[i];
}
int main() {
  hipStream_t first, second;
  HIP(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  hipEvent_t used;
  HIP(hipEventCreateWithFlags(&used, hipEventDisableTiming));
  int *sum = device(std::vector<int>(N));
  for (int step = 1; step <= 4; step++) {
    int *scratch;
    HIP(hipMallocAsync(reinterpret_cast<void **>(&scratch), N * sizeof(int), first));
    fill<<<N / 256, 256, 0, first>>>(scratch, step);
    HIP(hipEventRecord(used, first));
    HIP(hipStreamWaitEvent(second, used, 0));
    add<<<N / 256, 256, 0, second>>>(sum, scratch);
    HIP(hipEventRecord(used, second));
    HIP(hipStreamWaitEvent(first, used, 0));
    HIP(hipFreeAsync(scratch, first));
  }
  HIP(hipStreamSynchronize(second));
  bool right = true;
  for (int value : host(sum, N)) right = right && value == 10;
  HIP(hipDeviceSynchronize());
  HIP(hipEventDestroy(used));
  HIP(hipStreamDestroy(first));
  HIP(hipStreamDestroy(second));
  HIP(hipFree(sum));
  return ended(right);
}
