#include "transfer.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "failure.h"

namespace capture {
namespace {

constexpr uint64_t kLargestPiece = 32ull << 20, kSmallestPiece = 1ull << 20;
constexpr std::chrono::seconds kCopyTime{120};

// Reads memory of this process that may be unmapped. Some sandboxes forbid process_vm_readv, and it cannot read mappings of drivers;
// /proc/self/mem is slower.
ssize_t read_own(uint64_t address, uint8_t* to, size_t size) {
  static const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  iovec local{to, size}, remote{reinterpret_cast<void*>(address), size};
  ssize_t count;
  do count = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  while (count < 0 && errno == EINTR);
  if (count > 0 || memory < 0) return count;
  do count = pread(memory, to, size, off_t(address));
  while (count < 0 && errno == EINTR);
  return count;
}

}  // namespace

bool is_readable(uint64_t address) {
  uint8_t byte;
  return read_own(address, &byte, 1) == 1;
}

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", double(time.count()) / 1000);
  return text;
}

bool wait(const Api& api, hsa_signal_t signal, std::chrono::milliseconds time) {
  uint64_t frequency = 0;
  api.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency);
  const uint64_t ticks = uint64_t(std::max<int64_t>(time.count(), 0)) * std::max<uint64_t>(frequency / 1000, 1);
  const auto end = std::chrono::steady_clock::now() + time;
  // The runtime may return before the time limit.
  do {
    if (api.hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, ticks, HSA_WAIT_STATE_BLOCKED) < 1) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

Transfer::Transfer(const Api& api, Agents& agents, uint64_t largest) : api_(api) {
  piece_ = std::clamp(largest, kSmallestPiece, kLargestPiece);
  const Pool* pool = agents.host_pool();
  if (pool == nullptr) throw Failure("there is no host memory pool for copies");
  cpu_ = agents.all()[size_t(pool->agent)].handle;
  std::vector<hsa_agent_t> gpus;
  for (const Agent& agent : agents.all())
    if (agent.is_gpu) gpus.push_back(agent.handle);
  for (int i = 0; i < 2; ++i) {
    void* buffer = nullptr;
    if (api_.hsa_amd_memory_pool_allocate(pool->handle, piece_, 0, &buffer) != HSA_STATUS_SUCCESS)
      throw Failure("allocating host memory for copies failed");
    buffers_[i] = static_cast<uint8_t*>(buffer);
    gpus.push_back(cpu_);
    api_.hsa_amd_agents_allow_access(uint32_t(gpus.size()), gpus.data(), nullptr, buffer);
    gpus.pop_back();
    if (api_.hsa_signal_create(0, 0, nullptr, &signals_[i]) != HSA_STATUS_SUCCESS) throw Failure("creating a signal for copies failed");
  }
}

Transfer::~Transfer() {
  for (int i = 0; i < 2; ++i) {
    // A copy that has not ended may still write: its buffer is not freed.
    if (signals_[i].handle == 0 || !wait(api_, signals_[i], std::chrono::seconds(1))) continue;
    api_.hsa_signal_destroy(signals_[i]);
    if (buffers_[i] != nullptr) api_.hsa_amd_memory_pool_free(buffers_[i]);
  }
}

void Transfer::begin(int buffer, uint64_t address, uint64_t size, hsa_agent_t gpu) {
  api_.hsa_signal_store_screlease(signals_[buffer], 1);
  hsa_status_t status = api_.hsa_amd_memory_async_copy(buffers_[buffer], cpu_, reinterpret_cast<const void*>(address), gpu, size, 0,
                                                       nullptr, signals_[buffer]);
  if (status == HSA_STATUS_SUCCESS) return;
  api_.hsa_signal_store_screlease(signals_[buffer], 0);
  throw CopyFailure("starting the copy from the device failed: status 0x" + hex(uint64_t(status)));
}

void Transfer::finish(int buffer) {
  if (!wait(api_, signals_[buffer], kCopyTime)) throw CopyFailure("the copy from the device did not end in time");
}

void Transfer::from_gpu(uint64_t address, uint64_t size, hsa_agent_t gpu, const Consumer& consume) {
  auto length = [&](uint64_t offset) { return std::min(piece_, size - offset); };
  if (size > 0) begin(0, address, length(0), gpu);
  int current = 0;
  for (uint64_t offset = 0; offset < size; offset += piece_, current ^= 1) {
    finish(current);
    if (offset + piece_ < size) begin(current ^ 1, address + offset + piece_, length(offset + piece_), gpu);
    consume(buffers_[current], length(offset), offset);
  }
}

void Transfer::from_host(uint64_t address, uint64_t size, const Consumer& consume) {
  for (uint64_t offset = 0; offset < size; offset += piece_) {
    const size_t length = size_t(std::min(piece_, size - offset));
    for (size_t done = 0; done < length;) {
      const ssize_t count = read_own(address + offset + done, buffers_[0] + done, length - done);
      if (count <= 0) throw CopyFailure("host memory at 0x" + hex(address + offset + done) + ": " + std::strerror(errno));
      done += size_t(count);
    }
    consume(buffers_[0], length, offset);
  }
}

}  // namespace capture
