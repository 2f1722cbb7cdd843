// Brings device memory to the CPU in pieces: one is copied while the one before is worked on. Memory use does not depend
// on the size of what is copied.
#pragma once
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include "agents.h"

namespace capture {

// Memory that cannot be read.
struct CopyFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Deadline = std::chrono::steady_clock::time_point;

class Transfer {
 public:
  using Consumer = std::function<void(const uint8_t* bytes, size_t size, uint64_t offset)>;

  // Two buffers of at most `largest` bytes each; throws Failure where there is no memory for them.
  Transfer(const Api& api, Agents& agents, uint64_t largest);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Device memory through the copy engine of `gpu`.
  void from_gpu(uint64_t address, uint64_t size, hsa_agent_t gpu, const Consumer& consume);
  // The process's own memory; what is not mapped is a CopyFailure, not a crash.
  void from_host(uint64_t address, uint64_t size, const Consumer& consume);

 private:
  void begin(int buffer, uint64_t address, uint64_t size, hsa_agent_t gpu);
  void finish(int buffer);

  const Api& api_;
  hsa_agent_t cpu_{};
  uint64_t piece_ = 0;
  uint8_t* buffers_[2] = {};
  hsa_signal_t signals_[2] = {};
};

// "0.5 s"
std::string seconds(std::chrono::milliseconds time);

// Whether the signal fell below 1 in time.
bool wait(const Api& api, hsa_signal_t signal, std::chrono::milliseconds time);

}  // namespace capture
