// Two pinned buffers alternate; an event tells when the host may fill one again.
#include "../../program.h"
constexpr int N = 1 << 14, BATCHES = 7;
__global__ void accumulate(const int *in, long *sum) {
  int value = in[blockIdx.x * 256 + threadIdx.x];
  for (int d = 32; d; d /= 2) value += __shfl_down(value, d);
  if (threadIdx.x % 64 == 0) atomicAdd(reinterpret_cast<unsigned long long *>(sum), (unsigned long long)value);
}
int main() {
  int *pinned[2], *memory;
  hipEvent_t copied[2];
  for (int b = 0; b < 2; b++) {
    HIP(hipHostMalloc(&pinned[b], N * sizeof(int)));
    HIP(hipEventCreateWithFlags(&copied[b], hipEventDisableTiming));
  }
  HIP(hipMalloc(&memory, N * sizeof(int)));
  long *sum = device(std::vector<long>(1));
  hipStream_t stream;
  HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  for (int batch = 0; batch < BATCHES; batch++) {
    int b = batch % 2;
    HIP(hipEventSynchronize(copied[b]));
    for (int i = 0; i < N; i++) pinned[b][i] = batch;
    HIP(hipMemcpyAsync(memory, pinned[b], N * sizeof(int), hipMemcpyHostToDevice, stream));
    HIP(hipEventRecord(copied[b], stream));
    accumulate<<<N / 256, 256, 0, stream>>>(memory, sum);
  }
  HIP(hipStreamSynchronize(stream));
  bool right = host(sum, 1)[0] == 21L * N;
  for (int b = 0; b < 2; b++) {
    HIP(hipHostFree(pinned[b]));
    HIP(hipEventDestroy(copied[b]));
  }
  HIP(hipStreamDestroy(stream));
  HIP(hipFree(memory));
  HIP(hipFree(sum));
  return ended(right);
}
