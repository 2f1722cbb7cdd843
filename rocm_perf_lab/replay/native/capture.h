// Captures: watches dispatches until all selected ones. For each it stops all queues, saves the memory, and runs the dispatch.
#pragma once
#include <atomic>
#include <unordered_map>

#include "agents.h"
#include "code_objects.h"
#include "memory_map.h"
#include "queues.h"
#include "settings.h"
#include "timing.h"

namespace capture {

class Capture {
 public:
  // `earlier` watched a previous runtime of this process; its counts continue.
  Capture(const Settings& settings, const Api& api, Capture* earlier);

  // Whether a dispatch is still to come; afterwards every hook only forwards the call.
  bool is_armed() const { return armed_.load(std::memory_order_acquire); }
  void disarm() { armed_.store(false, std::memory_order_release); }

  void handle(const void* packets, uint64_t count, Queue& queue, PacketWriter writer);
  void forget_kernels(const std::vector<uint64_t>& objects);
  void warn(const std::string& text);
  // Writes kernels-<pid>.json.
  void report();
  // Writes times-<pid>.json, if every dispatch is timed; waits at most for `time` until all times have been read.
  void report_times(std::chrono::milliseconds time);
  void write_times();

  Agents agents;
  MemoryMap memory;
  CodeObjects code;
  Queues queues;

 private:
  using Counter = std::atomic<uint64_t>;
  struct Known {
    std::vector<size_t> requests;  // that want this kernel
    std::string name;
    Counter* count = nullptr;  // element of counts_
  };
  struct Request {
    Wanted wanted;
    std::unique_ptr<KernelFilter> filter;
    uint64_t matches = 0;
    bool is_taken = false, is_captured = false;
    std::string error;
  };
  struct Taken {
    std::vector<size_t> requests;  // empty if the dispatch is not wanted
    uint64_t kernel_index = 0, process_index = 0;
    std::string name;  // if every dispatch is timed
  };
  using Packet = hsa_kernel_dispatch_packet_t;

  // Counts a dispatch of a kernel that this thread has dispatched before and that no request wants, without a lock; returns false
  // for others.
  bool counts_unwanted(uint64_t kernel_object);
  // Counts a dispatch; returns the requests that it satisfies.
  Taken counts(const Packet& packet);
  // Returns the kernel; `lock`, of counts_lock_, is released meanwhile if the kernel is new.
  Known& known(uint64_t kernel_object, std::unique_lock<std::mutex>& lock);
  void take(const Packet& packet, Queue& queue, PacketWriter writer, const Taken& taken);
  void save(const Packet& packet, Queue& queue, PacketWriter writer, const Taken& taken, bool& is_submitted);
  // Runs the packet; returns false if it does not end in time.
  bool run(const Packet& packet, Queue& queue, PacketWriter writer, std::string& timing);
  std::string describe(const Packet& packet, const Queue& queue, const KernelCode& kernel, const Taken& taken, const std::string& timing,
                       const Snapshot& snapshot);
  bool is_emulated(const Queue& queue);

  const Settings settings_;
  const Api& api_;
  std::atomic<bool> armed_{true};
  std::mutex times_lock_;  // held while times-<pid>.json is written
  Timing timing_;
  std::mutex counts_lock_;                     // of all members below
  std::unordered_map<uint64_t, Known> known_;  // by kernel object
  std::map<std::string, Counter> counts_;      // dispatches by kernel name; elements are also counted without the lock
  std::vector<std::shared_ptr<Request>> requests_;
  std::vector<std::string> warnings_;
};

}  // namespace capture
