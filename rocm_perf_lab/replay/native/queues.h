// Queues of the application; stops and drains them for a capture.
//
// During a capture, other threads wait in their packet handlers. A barrier packet with a separate completion signal is added to
// the end of each queue: through the packet writer of a waiting handler if there is one, else through the ring of the queue. The
// latter happens on a separate thread, because a doorbell may need a lock that a waiting handler holds.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api.h"
#include "transfer.h"

namespace capture {

struct Queue {
  hsa_queue_t* queue = nullptr;
  hsa_agent_t agent{};
  hsa_queue_type32_t type = 0;
  std::vector<uint32_t> cu_mask;  // empty for all compute units
  std::atomic<bool> profiled{false}, gone{false};
  std::mutex in_use;  // held while a barrier is written to the ring, and while the queue is removed
  // State of the request to drain the queue; protected by the lock of Queues.
  hsa_signal_t drained{};
  bool is_asked = false;
};

class Queues {
 public:
  explicit Queues(const Api& api) : api_(api) {}

  Queue* add(hsa_queue_t* queue, hsa_agent_t agent, hsa_queue_type32_t type);
  Queue* find(const hsa_queue_t* queue);
  // Addresses of the ring buffers, into which packets may be written at any time.
  std::set<uint64_t> rings();
  // Called before the queue is destroyed.
  void remove(hsa_queue_t* queue);

  // Whether another thread captures.
  bool is_stopped() const { return is_stopped_.load(std::memory_order_acquire); }
  // Called by packet handlers: waits while another thread captures, and drains `queue` for it.
  void wait_turn(Queue& queue, PacketWriter writer);
  // Returns whether this packet is a barrier of the tool.
  bool is_own(Queue& queue, const void* packet);

  // Stops other threads and waits until all queues are empty; `writer` belongs to `own`. Throws Failure after `time`.
  void stop_all(Queue& own, PacketWriter writer, std::chrono::milliseconds time, std::vector<std::string>& warnings);
  void resume();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void ask_all(Queue& own, PacketWriter writer, std::vector<std::string>& warnings);
  bool all_drained(Queue& own, PacketWriter writer, Deadline deadline);
  void submit(Queue& known, hsa_signal_t signal);

  const Api& api_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::map<const hsa_queue_t*, std::shared_ptr<Queue>> queues_;
  std::vector<std::shared_ptr<Queue>> removed_;  // handlers may still refer to them
  std::vector<std::shared_ptr<Queue>> asked_;
  std::atomic<bool> is_stopped_{false};  // changed with the lock only
};

}  // namespace capture
