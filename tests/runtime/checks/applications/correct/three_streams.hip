// Upload, compute and download of batches through three streams and two buffers, ordered by events that are recorded again and again.
#include "../../program.h"
constexpr int N = 1 << 14, BATCHES = 6;
__global__ void square(int *values) {
  int i = blockIdx.x * 256 + threadIdx.x;
  values[i] *= values[i];
}
int main() {
  int *from, *to, *memory[2];
  HIP(hipHostMalloc(&from, BATCHES * N * sizeof(int)));
  HIP(hipHostMalloc(&to, BATCHES * N * sizeof(int)));
  for (int i = 0; i < BATCHES * N; i++) from[i] = i % 1000;
  hipStream_t up, compute, down;
  for (hipStream_t *stream : {&up, &compute, &down}) HIP(hipStreamCreateWithFlags(stream, hipStreamNonBlocking));
  hipEvent_t uploaded[2], computed[2], downloaded[2];
  for (int b = 0; b < 2; b++) {
    HIP(hipMalloc(&memory[b], N * sizeof(int)));
    for (hipEvent_t *event : {&uploaded[b], &computed[b], &downloaded[b]}) HIP(hipEventCreateWithFlags(event, hipEventDisableTiming));
  }
  for (int batch = 0; batch < BATCHES; batch++) {
    int b = batch % 2;
    HIP(hipStreamWaitEvent(up, downloaded[b], 0));
    HIP(hipMemcpyAsync(memory[b], from + batch * N, N * sizeof(int), hipMemcpyHostToDevice, up));
    HIP(hipEventRecord(uploaded[b], up));
    HIP(hipStreamWaitEvent(compute, uploaded[b], 0));
    square<<<N / 256, 256, 0, compute>>>(memory[b]);
    HIP(hipEventRecord(computed[b], compute));
    HIP(hipStreamWaitEvent(down, computed[b], 0));
    HIP(hipMemcpyAsync(to + batch * N, memory[b], N * sizeof(int), hipMemcpyDeviceToHost, down));
    HIP(hipEventRecord(downloaded[b], down));
  }
  HIP(hipStreamSynchronize(down));
  bool right = true;
  for (int i = 0; i < BATCHES * N; i++) right = right && to[i] == (i % 1000) * (i % 1000);
  for (hipStream_t stream : {up, compute, down}) HIP(hipStreamDestroy(stream));
  for (int b = 0; b < 2; b++) {
    HIP(hipFree(memory[b]));
    for (hipEvent_t event : {uploaded[b], computed[b], downloaded[b]}) HIP(hipEventDestroy(event));
  }
  HIP(hipHostFree(from));
  HIP(hipHostFree(to));
  return ended(right);
}
