// Upload, compute, download on three streams: the event of the computation is recorded on the stream of the upload.
#include "../../program.h"
constexpr int N = 1 << 16;
__global__ void square(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * in[i];  // DEFECT stream_race
}
int main() {
  float *from, *to, *in, *out;
  HIP(hipHostMalloc(&from, N * sizeof(float)));
  HIP(hipHostMalloc(&to, N * sizeof(float)));
  for (int i = 0; i < N; i++) from[i] = i % 7;
  HIP(hipMalloc(&in, N * sizeof(float)));
  HIP(hipMalloc(&out, N * sizeof(float)));
  hipStream_t up, compute, down;
  for (hipStream_t *stream : {&up, &compute, &down}) HIP(hipStreamCreateWithFlags(stream, hipStreamNonBlocking));
  hipEvent_t uploaded, computed;
  HIP(hipEventCreate(&uploaded));
  HIP(hipEventCreate(&computed));
  HIP(hipMemcpyAsync(in, from, N * sizeof(float), hipMemcpyHostToDevice, up));
  HIP(hipEventRecord(uploaded, up));
  HIP(hipStreamWaitEvent(compute, uploaded, 0));
  square<<<N / 256, 256, 0, compute>>>(in, out);                                // DEFECT stream_race
  HIP(hipEventRecord(computed, up));                                            // the mistake
  HIP(hipStreamWaitEvent(down, computed, 0));
  HIP(hipMemcpyAsync(to, out, N * sizeof(float), hipMemcpyDeviceToHost, down));  // DEFECT stream_race
  HIP(hipDeviceSynchronize());
  for (hipStream_t stream : {up, compute, down}) HIP(hipStreamDestroy(stream));
  HIP(hipEventDestroy(uploaded));
  HIP(hipEventDestroy(computed));
  HIP(hipHostFree(from));
  HIP(hipHostFree(to));
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
