// Streams with priorities are kept in a map by name and never destroyed.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <map>
#include <string>

class StreamPool {
  std::map<std::string, hipStream_t> streams_;

 public:
  hipStream_t get(const std::string &name, int priority) {
    auto [it, isNew] = streams_.try_emplace(name, nullptr);
    if (isNew && hipStreamCreateWithPriority(&it->second, hipStreamNonBlocking, priority) != hipSuccess) throw 1;  // DEFECT stream_leak
    return it->second;
  }
};

__global__ void touch(int *p) { atomicAdd(p, 1); }

int main() {
  int least, greatest, *p;
  if (hipDeviceGetStreamPriorityRange(&least, &greatest) != hipSuccess || hipMalloc(&p, sizeof(int)) != hipSuccess) return 1;
  if (hipMemset(p, 0, sizeof(int)) != hipSuccess || hipDeviceSynchronize() != hipSuccess) return 1;
  {
    StreamPool pool;
    touch<<<1, 64, 0, pool.get("high", greatest)>>>(p);
    touch<<<1, 64, 0, pool.get("low", least)>>>(p);
    touch<<<1, 64, 0, pool.get("high", greatest)>>>(p);
    if (hipDeviceSynchronize() != hipSuccess) return 1;
  }
  (void)hipFree(p);
  std::puts("ended");
}
