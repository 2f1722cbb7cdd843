// Stream-ordered allocations travel between streams with events; memory of the pool is reused on the same stream.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <stdexcept>
#include <string>

static void operator|(hipError_t status, const char *what) {
  if (status != hipSuccess) throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(status));
}
__global__ void set(int *p, int v) { p[blockIdx.x * blockDim.x + threadIdx.x] = v; }
__global__ void add(int *to, const int *from) { to[blockIdx.x * blockDim.x + threadIdx.x] += from[blockIdx.x * blockDim.x + threadIdx.x]; }

int main() try {
  hipStream_t s[2];
  hipEvent_t ready, used;
  for (auto &one : s) hipStreamCreateWithFlags(&one, hipStreamNonBlocking) | "stream";
  hipEventCreateWithFlags(&ready, hipEventDisableTiming) | "event";
  hipEventCreateWithFlags(&used, hipEventDisableTiming) | "event";
  int *total;
  hipMallocAsync((void **)&total, 4096, s[1]) | "allocate";
  hipMemsetAsync(total, 0, 4096, s[1]) | "clear";
  for (int round = 1; round <= 4; round++) {
    int *piece;
    hipMallocAsync((void **)&piece, 4096, s[0]) | "allocate";
    set<<<4, 256, 0, s[0]>>>(piece, round);
    hipEventRecord(ready, s[0]) | "record";
    hipStreamWaitEvent(s[1], ready, 0) | "wait";
    add<<<4, 256, 0, s[1]>>>(total, piece);
    hipEventRecord(used, s[1]) | "record";
    hipStreamWaitEvent(s[0], used, 0) | "wait";
    hipFreeAsync(piece, s[0]) | "free";
  }
  int last;
  hipMemcpyAsync(&last, total + 1023, sizeof last, hipMemcpyDeviceToHost, s[1]) | "copy";
  hipFreeAsync(total, s[1]) | "free";
  for (auto &one : s) hipStreamSynchronize(one) | "synchronise";
  for (auto &one : s) hipStreamDestroy(one) | "destroy";
  hipEventDestroy(ready) | "destroy";
  hipEventDestroy(used) | "destroy";
  if (last != 10) return 2;
  std::puts("right");
} catch (const std::exception &error) {
  std::puts(error.what());
  return 1;
}
