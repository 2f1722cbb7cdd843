// Application of `benchmarks.captures_in_rocm`, with times in a file.
//
//   small_dispatches FILE launches COUNT       writes the seconds of COUNT dispatches of one wavefront, and the processor time of
//                                              the thread that dispatches
//   small_dispatches FILE kernels COUNT        the same for kernels that take longer than their launch
//   small_dispatches FILE memory MEBIBYTES     fills device memory with pages that are half random, and writes the monotonic
//                                              time at which it dispatches a kernel that writes one page of it
#include <hip/hip_runtime.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define HIP(call)                                                                                      \
  if (hipError_t status = (call); status != hipSuccess) {                                              \
    std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, hipGetErrorString(status)); \
    std::exit(1);                                                                                      \
  }

constexpr size_t kPage = 4096, kBlock = size_t(64) << 20;

constexpr int kTurns = 40;

__global__ void increment(unsigned* x) { x[threadIdx.x]++; }
__global__ void mix(unsigned* x, int turns) {
  unsigned state = x[threadIdx.x];
  for (int turn = 0; turn < turns; turn++) state = state * 1664525 + (state >> 16);
  x[threadIdx.x] = state;
}

static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static double processor_time() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static std::vector<double> dispatches(long count, bool is_short) {
  unsigned* x;
  HIP(hipMalloc(reinterpret_cast<void**>(&x), kPage));
  HIP(hipMemset(x, 0, kPage));
  auto dispatch = [=] {
    if (is_short) increment<<<1, 64>>>(x);
    else mix<<<1, 64>>>(x, kTurns);
  };
  dispatch();
  HIP(hipDeviceSynchronize());
  const double begin = now(), processor = processor_time();
  for (long i = 0; i < count; i++) dispatch();
  const double launched = processor_time();
  HIP(hipDeviceSynchronize());
  return {now() - begin, launched - processor};
}

static std::vector<double> memory(size_t bytes) {
  char* x;
  HIP(hipMalloc(reinterpret_cast<void**>(&x), bytes));
  std::vector<uint64_t> block(std::min(bytes, kBlock) / 8, 0x0707070707070707);
  uint64_t state = 88172645463325252;
  for (size_t done = 0; done < bytes; done += kBlock) {
    for (size_t page = 0; page < block.size(); page += kPage / 8)
      for (size_t i = 0; i < kPage / 16; i++) block[page + i] = (state ^= state << 13, state ^= state >> 7, state ^= state << 17);
    HIP(hipMemcpy(x + done, block.data(), std::min(bytes - done, block.size() * 8), hipMemcpyHostToDevice));
  }
  HIP(hipDeviceSynchronize());
  const double begin = now();
  increment<<<1, 64>>>(reinterpret_cast<unsigned*>(x));
  HIP(hipDeviceSynchronize());
  return {begin};
}

int main(int count, char** arguments) {
  if (count != 4) return 64;
  const long number = std::strtol(arguments[3], nullptr, 10);
  const std::string mode = arguments[2];
  const std::vector<double> times = mode == "memory" ? memory(size_t(number) << 20) : dispatches(number, mode == "launches");
  FILE* file = std::fopen(arguments[1], "w");
  if (file == nullptr) return 1;
  for (double time : times) std::fprintf(file, "%.9f\n", time);
  return std::fclose(file);
}
