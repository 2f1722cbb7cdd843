// An arena hands out memory without alignment: the 64-bit counters begin after 3 32-bit ones.
#include <hip/hip_runtime.h>
#include <cstdio>

class Arena {
  char *base_ = nullptr;
  size_t used_ = 0;

 public:
  explicit Arena(size_t bytes) {
    if (hipMalloc(reinterpret_cast<void **>(&base_), bytes) == hipSuccess) (void)hipMemset(base_, 0, bytes);
  }
  ~Arena() { (void)hipFree(base_); }
  template <class T>
  T *take(size_t count) {
    T *memory = reinterpret_cast<T *>(base_ + used_);
    used_ += count * sizeof(T);
    return memory;
  }
};

__global__ void tally(unsigned *small, unsigned long long *large, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&small[i % 3], 1u);
  atomicAdd(&large[i % 5], (unsigned long long)i);  // DEFECT misaligned
}

int main() {
  Arena arena(4096);
  auto *small = arena.take<unsigned>(3);
  auto *large = arena.take<unsigned long long>(5);
  hipLaunchKernelGGL(tally, 4, 128, 0, nullptr, small, large, 500);
  unsigned first = 0;
  if (hipMemcpy(&first, small, sizeof first, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%u\n", first);
}
