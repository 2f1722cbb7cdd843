// OPTIONS --gpus 2
// Two GPUs exchange halos by peer copies; events of one device order streams of the other.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
#define TRY(call) if (hipError_t e = (call); e != hipSuccess) return std::printf("%s: %s\n", #call, hipGetErrorName(e)), 1

constexpr int kInner = 256;

__global__ void smooth(const float *now, float *next) {
  int i = threadIdx.x + 1;
  next[i] = (now[i - 1] + now[i] + now[i + 1]) / 3;
}

int main() {
  int count;
  TRY(hipGetDeviceCount(&count));
  if (count < 2) return 9;
  float *now[2], *next[2];
  hipStream_t stream[2];
  hipEvent_t computed[2], sent[2];
  std::vector<float> start(kInner + 2, 1.f);
  for (int g = 0; g < 2; g++) {
    TRY(hipSetDevice(g));
    TRY(hipDeviceEnablePeerAccess(1 - g, 0));
    TRY(hipMalloc(&now[g], start.size() * 4));
    TRY(hipMalloc(&next[g], start.size() * 4));
    TRY(hipMemcpy(now[g], start.data(), start.size() * 4, hipMemcpyHostToDevice));
    TRY(hipMemcpy(next[g], start.data(), start.size() * 4, hipMemcpyHostToDevice));
    TRY(hipStreamCreateWithFlags(&stream[g], hipStreamNonBlocking));
    TRY(hipEventCreateWithFlags(&computed[g], hipEventDisableTiming));
    TRY(hipEventCreateWithFlags(&sent[g], hipEventDisableTiming));
  }
  for (int g = 0; g < 2; g++) {
    TRY(hipSetDevice(g));
    TRY(hipDeviceSynchronize());
  }
  for (int step = 0; step < 3; step++) {
    for (int g = 0; g < 2; g++) {
      TRY(hipSetDevice(g));
      if (step) TRY(hipStreamWaitEvent(stream[g], sent[1 - g], 0));
      smooth<<<1, kInner, 0, stream[g]>>>(now[g], next[g]);
      TRY(hipEventRecord(computed[g], stream[g]));
    }
    for (int g = 0; g < 2; g++) {
      TRY(hipSetDevice(g));
      TRY(hipStreamWaitEvent(stream[g], computed[1 - g], 0));
      const int from = g == 0 ? kInner : 1, to = g == 0 ? 0 : kInner + 1;
      TRY(hipMemcpyPeerAsync(next[1 - g] + to, 1 - g, next[g] + from, g, 4, stream[g]));
      TRY(hipEventRecord(sent[g], stream[g]));
    }
    for (int g = 0; g < 2; g++) std::swap(now[g], next[g]);
  }
  for (int g = 0; g < 2; g++) TRY(hipStreamSynchronize(stream[g]));
  TRY(hipMemcpy(start.data(), now[1], start.size() * 4, hipMemcpyDeviceToHost));
  bool right = start[10] > 0.99f && start[10] < 1.01f;
  for (int g = 0; g < 2; g++) {
    TRY(hipSetDevice(g));
    TRY(hipStreamDestroy(stream[g]));
    TRY(hipEventDestroy(computed[g]));
    TRY(hipEventDestroy(sent[g]));
    TRY(hipFree(now[g]));
    TRY(hipFree(next[g]));
  }
  std::puts(right ? "right" : "wrong");
  return !right;
}
