// RAII owners with move semantics; one lives until the end of the process and is freed by a static destructor.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

template <class T>
class Buffer {
 public:
  explicit Buffer(size_t n) : n_(n) {
    if (hipMalloc(reinterpret_cast<void **>(&p_), n * sizeof(T)) != hipSuccess) throw 1;
  }
  Buffer(Buffer &&other) noexcept : p_(std::exchange(other.p_, nullptr)), n_(other.n_) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(p_, other.p_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~Buffer() { if (p_) (void)hipFree(p_); }
  T *get() const { return p_; }
  std::vector<T> download() const {
    std::vector<T> host(n_);
    if (hipMemcpy(host.data(), p_, n_ * sizeof(T), hipMemcpyDeviceToHost) != hipSuccess) throw 2;
    return host;
  }

 private:
  T *p_ = nullptr;
  size_t n_;
};

static std::optional<Buffer<int>> cache;

__global__ void iota(int *p) { p[threadIdx.x] = int(threadIdx.x); }

int main() {
  cache.emplace(64);
  std::vector<Buffer<int>> many;
  for (int i = 0; i < 5; i++) many.emplace_back(64);
  for (auto &buffer : many) iota<<<1, 64>>>(buffer.get());
  *cache = std::move(many[2]);
  many[1] = Buffer<int>(64);
  iota<<<1, 64>>>(many[1].get());
  if (cache->download()[63] != 63 || many[1].download()[7] != 7) return 2;
  std::puts("right");
}
