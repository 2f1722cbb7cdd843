// Copies device memory to the CPU in pieces; a piece is copied while the previous one is processed. Memory use does not depend on
// the number of bytes copied.
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

  // Allocates two buffers of at most `largest` bytes each; throws Failure if there is not enough memory.
  Transfer(const Api& api, Agents& agents, uint64_t largest);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Reads device memory through the copy engine of `gpu`.
  void from_gpu(uint64_t address, uint64_t size, hsa_agent_t gpu, const Consumer& consume);
  // Reads memory of the process; throws CopyFailure if it is not mapped.
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

// Whether this process can read the byte.
bool is_readable(uint64_t address);

// Formats a duration: "0.5 s".
std::string seconds(std::chrono::milliseconds time);

// Returns whether the signal fell below 1 in time.
bool wait(const Api& api, hsa_signal_t signal, std::chrono::milliseconds time);

}  // namespace capture
