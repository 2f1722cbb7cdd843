// One capture: watches dispatches until the selected one, then stops all queues, saves the memory, and runs the dispatch.
#pragma once
#include <atomic>
#include <shared_mutex>
#include <unordered_map>

#include "agents.h"
#include "code_objects.h"
#include "memory_map.h"
#include "queues.h"
#include "settings.h"

namespace capture {

class Capture {
 public:
  // `earlier` watched a previous runtime of this process; its counts continue.
  Capture(const Settings& settings, const Api& api, Capture* earlier);

  // Whether the dispatch is still to come; afterwards every hook only forwards the call.
  bool is_armed() const { return armed_.load(std::memory_order_acquire); }
  void disarm() { armed_.store(false, std::memory_order_release); }

  void handle(const void* packets, uint64_t count, Queue& queue, PacketWriter writer);
  void forget_kernels(const std::vector<uint64_t>& objects);
  void warn(const std::string& text);
  // Writes kernels-<pid>.json.
  void report();

  Agents agents;
  MemoryMap memory;
  CodeObjects code;
  Queues queues;

 private:
  struct Known {
    bool is_wanted = false;
    std::string name;
  };
  using Packet = hsa_kernel_dispatch_packet_t;

  // Counts a dispatch; returns whether it is the one to capture.
  bool counts(uint64_t kernel_object);
  const Known& known(uint64_t kernel_object);
  void take(const Packet& packet, Queue& queue, PacketWriter writer);
  void save(const Packet& packet, Queue& queue, PacketWriter writer, bool& is_submitted);
  // Runs the packet; returns false if it does not end in time.
  bool run(const Packet& packet, Queue& queue, PacketWriter writer, std::string& timing);
  std::string describe(const Packet& packet, const Queue& queue, const KernelCode& kernel, const std::string& timing,
                       const Snapshot& snapshot);
  bool is_emulated(const Queue& queue);

  const Settings settings_;
  const Api& api_;
  std::atomic<bool> armed_{true}, is_taken_{false};
  KernelFilter filter_;
  std::shared_mutex known_lock_;
  std::unordered_map<uint64_t, Known> known_;  // by kernel object
  std::mutex counts_lock_;
  std::map<std::string, uint64_t> counts_;     // dispatches by kernel name
  uint64_t matches_ = 0, dispatches_ = 0, taken_index_ = 0, taken_process_index_ = 0;
  std::vector<std::string> warnings_;
  std::string error_;
  bool is_captured_ = false;
};

}  // namespace capture
