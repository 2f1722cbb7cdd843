// A device vector overwrites its pointer in the move assignment.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <stdexcept>
#include <utility>

template <class T>
class DeviceVector {
 public:
  DeviceVector() = default;
  explicit DeviceVector(size_t count) : count_(count) {
    if (hipMalloc(reinterpret_cast<void **>(&data_), count * sizeof(T)) != hipSuccess) throw std::runtime_error("memory");  // DEFECT memory_leak
  }
  DeviceVector(DeviceVector &&other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceVector &operator=(DeviceVector &&other) noexcept {
    data_ = std::exchange(other.data_, nullptr);  // the old memory is lost
    count_ = other.count_;
    return *this;
  }
  ~DeviceVector() { if (data_) (void)hipFree(data_); }
  T *data() { return data_; }
  size_t size() const { return count_; }

 private:
  T *data_ = nullptr;
  size_t count_ = 0;
};

__global__ void zero(char *p, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) p[i] = 0;
}

int main() {
  DeviceVector<char> buffer;
  for (size_t bytes = 128; bytes <= 1024; bytes *= 2) {
    buffer = DeviceVector<char>(bytes);
    zero<<<(bytes + 255) / 256, 256>>>(buffer.data(), buffer.size());
  }
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  std::puts("ended");
}
