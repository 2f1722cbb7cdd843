// Memory of a shared_ptr with a deleter is also freed by the "close" of its user, in another thread.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <memory>
#include <thread>

struct Session {
  std::shared_ptr<int> memory;
  void close() { (void)hipFree(memory.get()); }  // DEFECT double_free
};

static std::shared_ptr<int> allocate(size_t count) {
  int *p = nullptr;
  if (hipMalloc(&p, count * sizeof(int)) != hipSuccess) return {};
  return {p, [](int *q) { (void)hipFree(q); }};  // DEFECT double_free
}

__global__ void one(int *p) { p[threadIdx.x] = 1; }

int main() {
  {
    Session session{allocate(64)};
    one<<<1, 64>>>(session.memory.get());
    std::thread worker([&] { session.close(); });
    worker.join();
  }
  std::puts("ended");
}
