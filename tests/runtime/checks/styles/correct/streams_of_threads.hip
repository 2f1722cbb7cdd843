// Four host threads with hipStreamPerThread and own buffers; the results are added under a mutex.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

__global__ void fill(int *p, int value) { p[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void reduce(const int *p, int *sum, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(sum, p[i]);
}

int main() {
  std::mutex mutex;
  long total = 0;
  int failures = 0;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; t++)
    threads.emplace_back([&, t] {
      int *p = nullptr, *sum = nullptr, *host = nullptr;
      bool ok = hipSetDevice(0) == hipSuccess && hipMalloc(&p, 2048 * sizeof(int)) == hipSuccess &&
                hipMalloc(&sum, sizeof(int)) == hipSuccess && hipHostMalloc((void **)&host, sizeof(int)) == hipSuccess &&
                hipMemsetAsync(sum, 0, sizeof(int), hipStreamPerThread) == hipSuccess;
      fill<<<8, 256, 0, hipStreamPerThread>>>(p, t);
      reduce<<<1, 256, 0, hipStreamPerThread>>>(p, sum, 2048);
      ok = ok && hipMemcpyAsync(host, sum, sizeof(int), hipMemcpyDeviceToHost, hipStreamPerThread) == hipSuccess &&
           hipStreamSynchronize(hipStreamPerThread) == hipSuccess;
      std::lock_guard<std::mutex> hold(mutex);
      total += *host;
      failures += !ok || hipFree(p) != hipSuccess || hipFree(sum) != hipSuccess || hipHostFree(host) != hipSuccess;
    });
  for (auto &thread : threads) thread.join();
  if (failures || total != 2048 * 10) return 2;
  std::puts("right");
}
