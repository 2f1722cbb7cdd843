// Two GPUs: a vector is split, halos are exchanged with peer copies, and one GPU reads the other's memory.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_CHECK(call)                                                                  \
  do {                                                                                   \
    hipError_t e_ = (call);                                                              \
    if (e_ != hipSuccess && e_ != hipErrorPeerAccessAlreadyEnabled) {                    \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, hipGetErrorString(e_));      \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

__global__ void smooth(const int* in, int* out, int n) {  // in has a halo of one on both sides
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i + 1] = (in[i] + in[i + 1] + in[i + 2]) % 1009;
}

__global__ void add_remote(const int* remote, int* sum, int n) {
  int part = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) part += remote[i + 1];
  atomicAdd(sum, part);
}

int main() {
  int gpus = 0;
  HIP_CHECK(hipGetDeviceCount(&gpus));
  if (gpus < 2) {
    printf("two GPUs are needed\n");
    return 1;
  }
  const int half = 5000, steps = 6;
  std::vector<int> values(2 * half);
  for (int i = 0; i < 2 * half; i++) values[i] = i * 31 % 1009;
  int* buffers[2][2];
  hipStream_t streams[2];
  hipEvent_t computed[2], copied[2];
  for (int g = 0; g < 2; g++) {
    HIP_CHECK(hipSetDevice(g));
    int access = 0;
    HIP_CHECK(hipDeviceCanAccessPeer(&access, g, 1 - g));
    if (!access) return 1;
    HIP_CHECK(hipDeviceEnablePeerAccess(1 - g, 0));
    HIP_CHECK(hipStreamCreateWithFlags(&streams[g], hipStreamNonBlocking));
    HIP_CHECK(hipEventCreateWithFlags(&computed[g], hipEventDisableTiming));
    HIP_CHECK(hipEventCreateWithFlags(&copied[g], hipEventDisableTiming));
    for (auto& buffer : buffers[g]) {
      HIP_CHECK(hipMalloc(&buffer, (half + 2) * sizeof(int)));
      HIP_CHECK(hipMemset(buffer, 0, (half + 2) * sizeof(int)));
    }
    HIP_CHECK(hipMemcpy(buffers[g][0] + 1, &values[g * half], half * sizeof(int), hipMemcpyHostToDevice));
    HIP_CHECK(hipDeviceSynchronize());
  }
  for (int s = 0; s < steps; s++) {
    const int now = s % 2;
    for (int g = 0; g < 2; g++) {  // each GPU fetches its halo when the other has computed and its own kernel has read
      HIP_CHECK(hipSetDevice(g));
      if (s > 0) HIP_CHECK(hipStreamWaitEvent(streams[g], computed[1 - g], 0));
      const int* from = g == 0 ? buffers[1][now] + 1 : buffers[0][now] + half;
      int* to = g == 0 ? buffers[0][now] + half + 1 : buffers[1][now];
      HIP_CHECK(hipMemcpyPeerAsync(to, g, from, 1 - g, sizeof(int), streams[g]));
      HIP_CHECK(hipEventRecord(copied[g], streams[g]));
    }
    for (int g = 0; g < 2; g++) {
      HIP_CHECK(hipSetDevice(g));
      HIP_CHECK(hipStreamWaitEvent(streams[g], copied[1 - g], 0));
      smooth<<<(half + 255) / 256, 256, 0, streams[g]>>>(buffers[g][now], buffers[g][1 - now], half);
      HIP_CHECK(hipGetLastError());
      HIP_CHECK(hipEventRecord(computed[g], streams[g]));
    }
  }
  std::vector<int> result(2 * half);
  for (int g = 0; g < 2; g++) {
    HIP_CHECK(hipSetDevice(g));
    HIP_CHECK(hipStreamSynchronize(streams[g]));
    HIP_CHECK(hipMemcpy(&result[g * half], buffers[g][steps % 2] + 1, half * sizeof(int), hipMemcpyDeviceToHost));
  }
  int *d_sum, sum = 0, remote = 0, wrong = 0;  // the current device is the second
  HIP_CHECK(hipMalloc(&d_sum, sizeof(int)));
  HIP_CHECK(hipMemset(d_sum, 0, sizeof(int)));
  add_remote<<<1, 256>>>(buffers[0][steps % 2], d_sum, half);
  HIP_CHECK(hipMemcpy(&sum, d_sum, sizeof(int), hipMemcpyDeviceToHost));
  HIP_CHECK(hipFree(d_sum));
  for (int s = 0; s < steps; s++) {
    std::vector<int> next(2 * half);
    for (int i = 0; i < 2 * half; i++) next[i] = ((i ? values[i - 1] : 0) + values[i] + (i + 1 < 2 * half ? values[i + 1] : 0)) % 1009;
    values.swap(next);
  }
  for (int i = 0; i < 2 * half; i++) wrong += values[i] != result[i];
  for (int i = 0; i < half; i++) remote += values[i];
  printf("two GPUs: %d wrong, sum over the peer's memory %d\n", wrong, sum);
  for (int g = 0; g < 2; g++) {
    HIP_CHECK(hipSetDevice(g));
    HIP_CHECK(hipStreamDestroy(streams[g]));
    HIP_CHECK(hipEventDestroy(computed[g]));
    HIP_CHECK(hipEventDestroy(copied[g]));
    for (int* buffer : buffers[g]) HIP_CHECK(hipFree(buffer));
  }
  return wrong == 0 && sum == remote ? 0 : 1;
}
