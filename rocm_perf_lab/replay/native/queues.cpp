#include "queues.h"

#include <cstring>
#include <thread>

#include "failure.h"

namespace capture {
namespace {

constexpr std::chrono::milliseconds kPause{20}, kFirstRepetition{100};
constexpr int kAttempts = 4;

hsa_barrier_and_packet_t barrier(hsa_signal_t done) {
  hsa_barrier_and_packet_t packet{};
  packet.header = uint16_t(HSA_PACKET_TYPE_BARRIER_AND | 1 << HSA_PACKET_HEADER_BARRIER |
                           HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                           HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
  packet.completion_signal = done;
  return packet;
}

}  // namespace

Queue* Queues::add(hsa_queue_t* queue, hsa_agent_t agent, hsa_queue_type32_t type) {
  auto added = std::make_shared<Queue>();
  added->queue = queue;
  added->agent = agent;
  added->type = type;
  std::lock_guard guard(lock_);
  queues_[queue] = added;
  return added.get();
}

Queue* Queues::find(const hsa_queue_t* queue) {
  std::lock_guard guard(lock_);
  auto found = queues_.find(queue);
  return found == queues_.end() ? nullptr : found->second.get();
}

std::set<uint64_t> Queues::rings() {
  std::lock_guard guard(lock_);
  std::set<uint64_t> addresses;
  for (const auto& [queue, known] : queues_) addresses.insert(reinterpret_cast<uint64_t>(queue->base_address));
  return addresses;
}

void Queues::remove(hsa_queue_t* queue) {
  std::shared_ptr<Queue> known;
  {
    std::lock_guard guard(lock_);
    auto found = queues_.find(queue);
    if (found == queues_.end()) return;
    known = found->second;
    removed_.push_back(known);
    queues_.erase(found);
  }
  std::lock_guard guard(known->in_use);
  known->gone = true;
}

void Queues::wait_turn(Queue& queue, PacketWriter writer) {
  Lock lock(lock_);
  while (is_stopped_) {
    if (queue.is_asked) {
      queue.is_asked = false;
      const auto packet = barrier(queue.drained);
      lock.unlock();
      writer(&packet, 1);
      lock.lock();
      continue;
    }
    changed_.wait(lock);
  }
}

bool Queues::is_own(Queue& queue, const void* packet) {
  uint16_t header;
  hsa_signal_t signal;
  std::memcpy(&header, packet, sizeof header);
  std::memcpy(&signal, static_cast<const char*>(packet) + 56, sizeof signal);
  if ((header & 0xff) != HSA_PACKET_TYPE_BARRIER_AND || signal.handle == 0) return false;
  std::lock_guard guard(lock_);
  return signal.handle == queue.drained.handle;
}

void Queues::stop_all(Queue& own, PacketWriter writer, std::chrono::milliseconds time, std::vector<std::string>& warnings) {
  const Deadline end = std::chrono::steady_clock::now() + time;
  for (;;) {
    {
      std::lock_guard guard(lock_);
      is_stopped_ = true;
    }
    ask_all(own, writer, warnings);
    if (all_drained(own, writer, std::min(end, std::chrono::steady_clock::now() + time / kAttempts))) return;
    resume();  // unfinished work may depend on work that other threads could not submit
    if (std::chrono::steady_clock::now() >= end)
      throw Failure("other work on the GPU did not finish within " + seconds(time));
    std::this_thread::sleep_for(kPause);
  }
}

void Queues::resume() {
  {
    std::lock_guard guard(lock_);
    is_stopped_ = false;
    for (auto& queue : asked_) queue->is_asked = false;
  }
  changed_.notify_all();
}

void Queues::ask_all(Queue& own, PacketWriter writer, std::vector<std::string>& warnings) {
  std::vector<std::pair<std::shared_ptr<Queue>, hsa_signal_t>> through_ring;
  {
    std::lock_guard guard(lock_);
    asked_.clear();
    for (auto& [address, queue] : queues_) {
      // A signal of an earlier attempt may still be decremented, so that it is neither reused nor destroyed.
      if (api_.hsa_signal_create(1, 0, nullptr, &queue->drained) != HSA_STATUS_SUCCESS) throw Failure("creating a signal for a barrier failed");
      asked_.push_back(queue);
      if (queue.get() == &own) continue;
      queue->is_asked = true;
      if (queue->type != HSA_QUEUE_TYPE_SINGLE) through_ring.emplace_back(queue, queue->drained);
      else warnings.push_back("queue " + std::to_string(queue->queue->id) + " has a single producer; the tool did not wait for its earlier work");
    }
  }
  const auto packet = barrier(own.drained);
  writer(&packet, 1);
  changed_.notify_all();
  std::thread([this, through_ring] {
    for (const auto& [queue, signal] : through_ring) submit(*queue, signal);
  }).detach();
}

// If a hardware queue is full, the runtime keeps the barrier until the packet handler returns, which waits for the barrier: it is
// written again after a while, when the queue has room. Barriers that are written later have no effect.
bool Queues::all_drained(Queue& own, PacketWriter writer, Deadline deadline) {
  auto pause = kFirstRepetition;
  Deadline repetition = std::chrono::steady_clock::now() + pause;
  for (const auto& queue : asked_) {
    if (queue->type == HSA_QUEUE_TYPE_SINGLE && queue->is_asked) continue;
    while (!queue->gone && !wait(api_, queue->drained, kPause)) {
      const Deadline now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      if (now < repetition) continue;
      pause *= 2;
      repetition = now + pause;
      if (queue.get() == &own) {
        const auto packet = barrier(own.drained);
        writer(&packet, 1);
      } else {
        {
          std::lock_guard guard(lock_);
          queue->is_asked = true;
        }
        changed_.notify_all();
      }
    }
  }
  return true;
}

void Queues::submit(Queue& known, hsa_signal_t signal) {
  std::lock_guard guard(known.in_use);
  if (known.gone) return;
  hsa_queue_t* queue = known.queue;
  // Takes an index only if its slot is free: the owner of an index must write its packet without waiting.
  uint64_t index = api_.hsa_queue_load_write_index_relaxed(queue);
  for (;;) {
    if (index - api_.hsa_queue_load_read_index_scacquire(queue) >= queue->size) return;  // full: a packet handler is running and will wait in `wait_turn`
    const uint64_t found = api_.hsa_queue_cas_write_index_screlease(queue, index, index + 1);
    if (found == index) break;
    index = found;
  }
  auto* slot = static_cast<char*>(queue->base_address) + index % queue->size * 64;
  const auto packet = barrier(signal);
  std::memcpy(slot + 4, reinterpret_cast<const char*>(&packet) + 4, sizeof packet - 4);
  uint32_t first;
  std::memcpy(&first, &packet, sizeof first);
  __atomic_store_n(reinterpret_cast<uint32_t*>(slot), first, __ATOMIC_RELEASE);
  api_.hsa_signal_store_screlease(queue->doorbell_signal, hsa_signal_value_t(index));
}

}  // namespace capture
