// Threads of the host use one GPU at once: per-thread streams, separate buffers, one shared atomic counter.
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static std::atomic<int> failures{0};
#define CHECK(x)                                                                      \
  if (hipError_t e = (x); e != hipSuccess) {                                          \
    fprintf(stderr, "line %d: %s\n", __LINE__, hipGetErrorString(e));                 \
    failures++;                                                                       \
    return;                                                                           \
  }

__global__ void collatz(const unsigned* start, int* steps, int n, unsigned long long* total) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int count = 0;
  for (unsigned long long v = start[i]; v != 1; count++) v = v % 2 ? 3 * v + 1 : v / 2;
  steps[i] = count;
  atomicAdd(total, (unsigned long long)count);
}

static void worker(int id, unsigned long long* total, unsigned long long* expected) {
  const int n = 700;
  std::vector<unsigned> start(n);
  std::vector<int> steps(n);
  for (int i = 0; i < n; i++) start[i] = 1 + unsigned(i) * 4 + unsigned(id);
  unsigned* d_start;
  int* d_steps;
  CHECK(hipSetDevice(0));
  CHECK(hipMalloc(&d_start, n * sizeof(unsigned)));
  CHECK(hipMalloc(&d_steps, n * sizeof(int)));
  for (int round = 0; round < 3; round++) {
    CHECK(hipMemcpyAsync(d_start, start.data(), n * sizeof(unsigned), hipMemcpyHostToDevice, hipStreamPerThread));
    collatz<<<(n + 63) / 64, 64, 0, hipStreamPerThread>>>(d_start, d_steps, n, total);
    CHECK(hipGetLastError());
    CHECK(hipMemcpyAsync(steps.data(), d_steps, n * sizeof(int), hipMemcpyDeviceToHost, hipStreamPerThread));
    CHECK(hipStreamSynchronize(hipStreamPerThread));
    for (int i = 0; i < n; i++) {
      int count = 0;
      for (unsigned long long v = start[i]; v != 1; count++) v = v % 2 ? 3 * v + 1 : v / 2;
      failures += count != steps[i];
      *expected += count;
    }
  }
  CHECK(hipFree(d_start));
  CHECK(hipFree(d_steps));
}

int main() {
  constexpr int threads = 4;
  unsigned long long *total, sum = 0, expected[threads] = {}, all = 0;
  if (hipMalloc(&total, sizeof *total) != hipSuccess || hipMemset(total, 0, sizeof *total) != hipSuccess) return 1;
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::vector<std::thread> pool;
  for (int id = 0; id < threads; id++) pool.emplace_back(worker, id, total, &expected[id]);
  for (auto& thread : pool) thread.join();
  if (hipMemcpy(&sum, total, sizeof sum, hipMemcpyDeviceToHost) != hipSuccess || hipFree(total) != hipSuccess) return 1;
  for (auto e : expected) all += e;
  printf("threads: %d failures, %llu steps in all\n", failures.load(), sum);
  return failures || sum != all ? 1 : 0;
}
