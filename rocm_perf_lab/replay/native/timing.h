// Times of all dispatches, for a list of kernels: each dispatch gets a completion signal of the tool. A thread per queue waits for
// these signals in order, reads the times, and notifies the application.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "json.h"
#include "queues.h"

namespace capture {

class Timing {
 public:
  // `when_changed` is called about once per second while dispatches end: the process may be killed.
  Timing(const Api& api, std::function<void()> when_changed) : api_(api), when_changed_(std::move(when_changed)) {}

  // Submits the dispatch with a signal of the tool; `index` is its position among the dispatches of its kernel.
  void submit(const hsa_kernel_dispatch_packet_t& packet, Queue& queue, PacketWriter writer, const std::string& kernel,
              const std::string& shape, uint64_t index);
  // Writes times-<pid>.json; see FORMAT.md.
  void write(Json& json);
  // Waits until the submitted dispatches have been read, at most for `time`.
  void settle(std::chrono::milliseconds time);

 private:
  struct Pending {
    hsa_signal_t done, original;
    hsa_agent_t agent;
    std::string kernel, shape;
    uint64_t index;
  };
  struct Collector {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<Pending> pending;
  };
  struct Sample {
    uint64_t index, ticks;
    std::string shape;
  };
  void collect(Collector& collector);
  void take(const Pending& pending);
  hsa_signal_t signal();

  const Api& api_;
  const std::function<void()> when_changed_;
  uint64_t frequency_ = 0;
  std::mutex lock_;
  std::atomic<int64_t> changed_at_{0};  // second of the last call of `when_changed_`
  std::map<const Queue*, std::unique_ptr<Collector>> collectors_;
  std::vector<hsa_signal_t> free_signals_;
  std::map<std::string, std::vector<Sample>> samples_;  // by kernel
  std::atomic<uint64_t> submitted_{0}, collected_{0};
};

// Reads the times of a dispatch. ROCr 6.4 converts GPU times with a pair of clocks that another thread may be replacing, so that a time
// is wrong by milliseconds now and then: times are read until two durations in a row agree.
bool dispatch_time(const Api& api, hsa_agent_t agent, hsa_signal_t done, hsa_amd_profiling_dispatch_time_t& time);

// Copies the times of a dispatch from one signal to another.
void copy_times(hsa_signal_t from, hsa_signal_t to);

}  // namespace capture
