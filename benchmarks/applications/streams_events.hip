// Streams ordered by events: two producers, one consumer; times between events are positive and ordered.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP(call)                                                                           \
  do {                                                                                      \
    hipError_t status_ = hip##call;                                                         \
    if (status_) {                                                                          \
      fprintf(stderr, "hip" #call " in line %d: %s\n", __LINE__, hipGetErrorString(status_));\
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

__global__ void fill(int* x, int n, int start) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = start + i;
}
__global__ void multiply(const int* a, const int* b, int* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] * b[i];
}

int main() {
  const int n = 20000, rounds = 3;
  int *a, *b, *c, *host;
  HIP(Malloc(&a, n * sizeof(int)));
  HIP(Malloc(&b, n * sizeof(int)));
  HIP(Malloc(&c, n * sizeof(int)));
  HIP(HostMalloc(&host, rounds * n * sizeof(int), 0));
  hipStream_t left, right, last;
  int least, greatest;
  HIP(DeviceGetStreamPriorityRange(&least, &greatest));
  HIP(StreamCreate(&left));
  HIP(StreamCreateWithPriority(&right, hipStreamNonBlocking, greatest));
  HIP(StreamCreateWithFlags(&last, hipStreamNonBlocking));
  hipEvent_t left_done, right_done, consumed, start, stop;
  HIP(EventCreateWithFlags(&left_done, hipEventDisableTiming));
  HIP(EventCreateWithFlags(&right_done, hipEventDisableTiming));
  HIP(EventCreateWithFlags(&consumed, hipEventDisableTiming));
  HIP(EventCreate(&start));
  HIP(EventCreate(&stop));
  HIP(EventRecord(start, last));
  for (int r = 0; r < rounds; r++) {
    if (r > 0) {  // the buffers are free once the consumer has read them
      HIP(StreamWaitEvent(left, consumed, 0));
      HIP(StreamWaitEvent(right, consumed, 0));
    }
    fill<<<16, 256, 0, left>>>(a, n, r);
    HIP(EventRecord(left_done, left));
    fill<<<16, 256, 0, right>>>(b, n, -r);
    HIP(EventRecord(right_done, right));
    HIP(StreamWaitEvent(last, left_done, 0));
    HIP(StreamWaitEvent(last, right_done, 0));
    multiply<<<16, 256, 0, last>>>(a, b, c, n);
    HIP(EventRecord(consumed, last));
    HIP(MemcpyAsync(host + r * n, c, n * sizeof(int), hipMemcpyDeviceToHost, last));
  }
  HIP(EventRecord(stop, last));
  HIP(EventSynchronize(stop));
  float milliseconds = -1;
  HIP(EventElapsedTime(&milliseconds, start, stop));
  int wrong = 0;
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < n; i++) wrong += host[r * n + i] != (i + r) * (i - r);
  const hipError_t idle = hipStreamQuery(last), passed = hipEventQuery(consumed);
  printf("streams: %d wrong, time %s, query %s %s\n", wrong, milliseconds > 0 ? "positive" : "NOT positive", hipGetErrorName(idle),
         hipGetErrorName(passed));
  for (hipEvent_t e : {left_done, right_done, consumed, start, stop}) HIP(EventDestroy(e));
  HIP(StreamSynchronize(left));
  HIP(StreamSynchronize(right));
  for (hipStream_t s : {left, right, last}) HIP(StreamDestroy(s));
  HIP(Free(a));
  HIP(Free(b));
  HIP(Free(c));
  HIP(HostFree(host));
  return wrong == 0 && milliseconds > 0 && idle == hipSuccess && passed == hipSuccess ? 0 : 1;
}
