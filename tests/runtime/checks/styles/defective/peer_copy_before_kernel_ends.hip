// OPTIONS --gpus 2
// A peer copy of GPU 1 fetches what a kernel of GPU 0 still writes; the event that orders them is never waited for.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
#define TRY(call) if (hipError_t e = (call); e != hipSuccess) return std::printf("%s: %s\n", #call, hipGetErrorName(e)), 1

__global__ void iota(unsigned *p) { p[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * blockDim.x + threadIdx.x; }  // DEFECT stream_race

int main() {
  constexpr unsigned count = 1u << 13;
  unsigned *memory[2];
  hipStream_t stream[2];
  hipEvent_t done;
  for (int gpu = 0; gpu < 2; gpu++) {
    TRY(hipSetDevice(gpu));
    TRY(hipMalloc(&memory[gpu], count * sizeof(unsigned)));
    TRY(hipStreamCreateWithFlags(&stream[gpu], hipStreamNonBlocking));
  }
  TRY(hipSetDevice(0));
  TRY(hipEventCreateWithFlags(&done, hipEventDisableTiming));
  iota<<<count / 256, 256, 0, stream[0]>>>(memory[0]);
  TRY(hipEventRecord(done, stream[0]));
  TRY(hipSetDevice(1));
  TRY(hipMemcpyPeerAsync(memory[1], 1, memory[0], 0, count * sizeof(unsigned), stream[1]));  // DEFECT stream_race
  TRY(hipStreamSynchronize(stream[1]));
  TRY(hipStreamSynchronize(stream[0]));
  std::vector<unsigned> host(count);
  TRY(hipMemcpy(host.data(), memory[1], count * sizeof(unsigned), hipMemcpyDeviceToHost));
  std::printf("%u\n", host[count - 1]);
  TRY(hipEventDestroy(done));
  for (int gpu = 0; gpu < 2; gpu++) {
    TRY(hipStreamDestroy(stream[gpu]));
    TRY(hipFree(memory[gpu]));
  }
  return 0;
}
