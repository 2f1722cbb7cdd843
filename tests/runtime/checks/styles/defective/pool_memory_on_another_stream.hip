// hipMallocAsync on one stream, first use on another one that does not wait for the allocation.
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void produce(int *p, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = i;  // DEFECT stream_race|use_after_free|out_of_bounds
}
__global__ void busy(int *p) { atomicAdd(p, 1); }

struct Streams {
  hipStream_t allocation{}, compute{};
  Streams() {
    (void)hipStreamCreateWithFlags(&allocation, hipStreamNonBlocking);
    (void)hipStreamCreateWithFlags(&compute, hipStreamNonBlocking);
  }
  ~Streams() {
    (void)hipStreamDestroy(allocation);
    (void)hipStreamDestroy(compute);
  }
};

int main() {
  Streams streams;
  int *counter = nullptr, *scratch = nullptr;
  if (hipMalloc(&counter, 4) != hipSuccess || hipMemset(counter, 0, 4) != hipSuccess || hipDeviceSynchronize() != hipSuccess) return 1;
  busy<<<32, 64, 0, streams.allocation>>>(counter);
  if (hipMallocAsync((void **)&scratch, 4096, streams.allocation) != hipSuccess) return 1;  // DEFECT stream_race|use_after_free
  produce<<<1, 256, 0, streams.compute>>>(scratch, 1024);  // DEFECT stream_race|use_after_free
  (void)hipStreamSynchronize(streams.compute);
  (void)hipFreeAsync(scratch, streams.allocation);
  (void)hipStreamSynchronize(streams.allocation);
  (void)hipFree(counter);
  std::puts("ended");
}
