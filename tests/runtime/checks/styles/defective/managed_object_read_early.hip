// C++ objects in managed memory through operator new: the host prints a member before the kernel has ended.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <new>

class Managed {
 public:
  void *operator new(size_t bytes) {
    void *memory = nullptr;
    if (hipMallocManaged(&memory, bytes) != hipSuccess) throw std::bad_alloc();
    return memory;
  }
  void operator delete(void *memory) { (void)hipFree(memory); }
};

class Statistics : public Managed {
 public:
  int count = 0, maximum = 0;
  __device__ void add(int value) {
    atomicAdd(&count, 1);
    atomicMax(&maximum, value);
  }
};

__global__ void collect(Statistics *statistics) { statistics->add(int(blockIdx.x * blockDim.x + threadIdx.x)); }

int main() {
  auto *statistics = new Statistics;
  collect<<<16, 128>>>(statistics);
  int seen = statistics->count;  // DEFECT host_race
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::printf("%d of %d\n", seen, statistics->count);
  delete statistics;
}
