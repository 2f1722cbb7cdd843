// Batches are uploaded through one pinned buffer, which the host fills again while the copy may still read it.
#include "../../program.h"
constexpr int N = 1 << 16, BATCHES = 3;
__global__ void scale(float *values) { values[blockIdx.x * 256 + threadIdx.x] *= 2; }
int main() {
  float *pinned, *memory;
  HIP(hipHostMalloc(&pinned, N * sizeof(float)));
  HIP(hipMalloc(&memory, BATCHES * N * sizeof(float)));
  hipStream_t stream;
  HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int i = 0; i < N; i++) pinned[i] = batch;  // DEFECT host_race
    HIP(hipMemcpyAsync(memory + batch * N, pinned, N * sizeof(float), hipMemcpyHostToDevice, stream));  // DEFECT host_race
    scale<<<N / 256, 256, 0, stream>>>(memory + batch * N);
  }
  HIP(hipStreamSynchronize(stream));
  HIP(hipStreamDestroy(stream));
  HIP(hipHostFree(pinned));
  HIP(hipFree(memory));
  return ended(true);
}
