// Stencil whose borders are updated on a second stream: the next step does not wait for them.
#include "../../program.h"
constexpr int N = 4096;
__global__ void inner(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < N - 1) out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];  // DEFECT stream_race
}
__global__ void border(const float *in, float *out) {
  if (threadIdx.x == 0) out[0] = in[0];           // DEFECT stream_race
  if (threadIdx.x == 1) out[N - 1] = in[N - 1];   // DEFECT stream_race
}
int main() {
  float *now = device(std::vector<float>(N, 1)), *next = device(std::vector<float>(N, 0));
  hipStream_t work, edges;
  hipEvent_t done;
  HIP(hipStreamCreateWithFlags(&work, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&edges, hipStreamNonBlocking));
  HIP(hipEventCreateWithFlags(&done, hipEventDisableTiming));
  for (int step = 0; step < 4; step++) {
    border<<<1, 64, 0, edges>>>(now, next);          // DEFECT stream_race
    inner<<<N / 256, 256, 0, work>>>(now, next);     // DEFECT stream_race
    HIP(hipEventRecord(done, work));
    HIP(hipStreamWaitEvent(edges, done, 0));
    // missing: work waits for edges
    std::swap(now, next);
  }
  HIP(hipDeviceSynchronize());
  HIP(hipEventDestroy(done));
  HIP(hipStreamDestroy(work));
  HIP(hipStreamDestroy(edges));
  HIP(hipFree(now));
  HIP(hipFree(next));
  return ended(true);
}
