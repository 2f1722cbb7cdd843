// Two pinned slots feed uploads on a stream each. Before it refills a slot, the host waits for the event of the other one.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstring>

namespace {
constexpr size_t kBytes = 16384;

__global__ void checksum(const unsigned *data, size_t words, unsigned *sum) {
  for (size_t i = threadIdx.x; i < words; i += blockDim.x) atomicXor(sum, data[i]);
}

struct Slot {
  unsigned *host = nullptr, *device = nullptr;
  hipEvent_t copied = nullptr;
  hipStream_t stream = nullptr;
};

class Uploader {
 public:
  Uploader() {
    for (Slot &slot : slots_) {
      (void)hipStreamCreateWithFlags(&slot.stream, hipStreamNonBlocking);
      (void)hipHostMalloc(reinterpret_cast<void **>(&slot.host), kBytes);
      (void)hipMalloc(reinterpret_cast<void **>(&slot.device), kBytes);
      (void)hipEventCreateWithFlags(&slot.copied, hipEventDisableTiming);
    }
    (void)hipMalloc(reinterpret_cast<void **>(&sum_), sizeof(unsigned));
    (void)hipMemset(sum_, 0, sizeof(unsigned));
    (void)hipDeviceSynchronize();
  }
  ~Uploader() {
    for (Slot &slot : slots_) {
      (void)hipStreamSynchronize(slot.stream);
      (void)hipStreamDestroy(slot.stream);
      (void)hipEventDestroy(slot.copied);
      (void)hipFree(slot.device);
      (void)hipHostFree(slot.host);
    }
    (void)hipFree(sum_);
  }
  void push(int round) {
    Slot &slot = slots_[round % 2], &other = slots_[(round + 1) % 2];
    if (round >= 2) (void)hipEventSynchronize(other.copied);
    std::memset(slot.host, round, kBytes);  // DEFECT host_race
    (void)hipMemcpyAsync(slot.device, slot.host, kBytes, hipMemcpyHostToDevice, slot.stream);  // DEFECT host_race
    (void)hipEventRecord(slot.copied, slot.stream);
    checksum<<<1, 256, 0, slot.stream>>>(slot.device, kBytes / sizeof(unsigned), sum_);
  }

 private:
  Slot slots_[2];
  unsigned *sum_ = nullptr;
};
}  // namespace

int main() {
  Uploader uploader;
  for (int round = 0; round < 4; round++) uploader.push(round);
  std::puts("ended");
}
