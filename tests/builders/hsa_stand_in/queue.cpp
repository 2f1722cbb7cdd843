// Queues: a ring, a doorbell, and a thread that processes packets in order; intercept queues wrap them.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "implementation.h"

namespace stand_in {

constexpr uint64_t kPacketBytes = 64;

struct Handler { hsa_amd_queue_intercept_handler call; void* data; };

struct Queue {
  hsa_queue_t face{};
  std::atomic<uint64_t> write{0}, read{0};
  hsa_agent_t agent{};
  Signal doorbell;
  hsa_queue_error_callback on_error = nullptr;
  void* error_data = nullptr;
  std::atomic<bool> stop{false};
  bool is_profiled = false;
  std::thread processor;
  // Members of an intercept queue:
  Queue* inner = nullptr;
  std::mutex lock;
  std::vector<Handler> handlers;

  uint8_t* slot(uint64_t index) { return static_cast<uint8_t*>(face.base_address) + index % face.size * kPacketBytes; }
};

namespace {

std::atomic<uint64_t> next_queue{0};
std::mutex events_lock;
hsa_amd_system_event_callback_t event_handler;
void* event_data;
thread_local Queue* intercepting;  // the queue whose handlers run on this thread
thread_local size_t level;         // number of its handlers still to be called, the latest first

Queue* queue_of(const hsa_queue_t* face) { return reinterpret_cast<Queue*>(const_cast<hsa_queue_t*>(face)); }

std::atomic<uint16_t>& header_of(void* packet) { return *static_cast<std::atomic<uint16_t>*>(packet); }
uint8_t type_of(void* packet) { return uint8_t(header_of(packet).load(std::memory_order_acquire)); }

void hang(Queue& queue) {
  while (!queue.stop) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void fail(Queue& queue, hsa_status_t status, const std::string& why) {
  std::fprintf(stderr, "stand-in: %s\n", why.c_str());
  if (queue.on_error != nullptr) queue.on_error(status, &queue.face, queue.error_data);
  hang(queue);
}

// The emulator answers "ok", "hang", "fault ADDRESS", or an error message, which stops the queue.
void run_kernel(Queue& queue, void* slot, hsa_kernel_dispatch_packet_t packet) {
  Signal* done = signal_of(packet.completion_signal);
  if (fault("hang")) return hang(queue);
  auto memory = visible_to(queue.agent);
  if (fault("memory_fault")) {
    report_memory_fault(queue.agent, fault_number("memory_fault", 0x1000));
    return hang(queue);
  }
  auto kernel = kernel_at(packet.kernel_object);
  if (!kernel) return fail(queue, HSA_STATUS_ERROR_INVALID_CODE_OBJECT, "a packet with an unknown kernel object");
  std::ostringstream request;
  request << "run " << kernel->code_object << ' ' << reinterpret_cast<uint64_t>(slot) << ' ' << kernel->symbol;
  uint64_t start = now_ticks();
  std::string answer;
  try {
    answer = ask_emulator(request.str(), memory);
  } catch (const std::runtime_error& error) {
    return fail(queue, HSA_STATUS_ERROR, error.what());
  }
  if (answer == "hang") return hang(queue);
  if (answer.rfind("fault ", 0) == 0) {
    report_memory_fault(queue.agent, std::strtoull(answer.c_str() + 6, nullptr, 10));
    return hang(queue);
  }
  if (answer != "ok") return fail(queue, HSA_STATUS_ERROR_EXCEPTION, answer);
  if (done != nullptr && queue.is_profiled) done->start = start, done->end = std::max(now_ticks(), start + 1);
}

void wait_for_dependencies(Queue& queue, const hsa_barrier_and_packet_t& packet, bool any) {
  bool given = false;
  for (hsa_signal_t signal : packet.dep_signal) given |= signal.handle != 0;
  if (!given) return;
  if (!any) {
    for (hsa_signal_t signal : packet.dep_signal)
      if (signal.handle != 0) wait_until_zero(signal, queue.stop);
    return;
  }
  while (!queue.stop) {
    for (hsa_signal_t signal : packet.dep_signal)
      if (signal.handle != 0 && signal_of(signal)->value == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void process(Queue& queue) {
  for (uint64_t index = 0; !queue.stop; ++index) {
    uint8_t* slot = queue.slot(index);
    for (int spins = 0; !queue.stop && (index >= queue.write || type_of(slot) == HSA_PACKET_TYPE_INVALID); ++spins)
      if (spins > 200) std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (queue.stop) return;
    hsa_signal_t done{};
    std::memcpy(&done, slot + 56, sizeof done);
    switch (type_of(slot)) {
      case HSA_PACKET_TYPE_KERNEL_DISPATCH: {
        hsa_kernel_dispatch_packet_t packet;
        std::memcpy(&packet, slot, sizeof packet);
        run_kernel(queue, slot, packet);
        break;
      }
      case HSA_PACKET_TYPE_BARRIER_AND:
      case HSA_PACKET_TYPE_BARRIER_OR: {
        hsa_barrier_and_packet_t packet;
        std::memcpy(&packet, slot, sizeof packet);
        wait_for_dependencies(queue, packet, type_of(slot) == HSA_PACKET_TYPE_BARRIER_OR);
        break;
      }
      default: fail(queue, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "a packet of unknown type");
    }
    if (queue.stop) return;
    header_of(slot).store(HSA_PACKET_TYPE_INVALID, std::memory_order_release);
    queue.read = index + 1;
    if (done.handle != 0) stand_in::hsa_signal_subtract_screlease(done, 1);
  }
}

void to_hardware(const void* packets, uint64_t count) {
  Queue& inner = *intercepting->inner;
  for (uint64_t i = 0; i < count; ++i) {
    const auto* packet = static_cast<const uint8_t*>(packets) + i * kPacketBytes;
    uint64_t index = inner.write;
    while (index - inner.read >= inner.face.size && !inner.stop) std::this_thread::sleep_for(std::chrono::microseconds(100));
    std::memcpy(inner.slot(index) + 2, packet + 2, kPacketBytes - 2);
    uint16_t header;
    std::memcpy(&header, packet, sizeof header);
    header_of(inner.slot(index)).store(header, std::memory_order_release);
    inner.write = index + 1;
  }
}

// Packet writer that is passed to handlers.
void submit(const void* packets, uint64_t count) {
  if (level == 0) return to_hardware(packets, count);
  const Handler& next = intercepting->handlers[--level];
  next.call(packets, count, intercepting->read, next.data, &submit);
  ++level;
}

// Handlers run on the thread that rings the doorbell, under the lock of the queue; another thread serves a doorbell rung in a handler.
void intercept(Queue& queue) {
  if (intercepting != nullptr) {
    std::thread([&queue] { intercept(queue); }).detach();
    return;
  }
  std::lock_guard guard(queue.lock);
  intercepting = &queue;
  while (!queue.stop && queue.read < queue.write && type_of(queue.slot(queue.read)) != HSA_PACKET_TYPE_INVALID) {
    uint8_t* slot = queue.slot(queue.read);
    level = queue.handlers.size();
    submit(slot, 1);
    header_of(slot).store(HSA_PACKET_TYPE_INVALID, std::memory_order_release);
    ++queue.read;
  }
  intercepting = nullptr;
}

Queue* make(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, hsa_queue_error_callback callback, void* data) {
  auto* queue = new Queue;
  queue->face.type = type;
  queue->face.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
  queue->face.base_address = allocate_shared(size * kPacketBytes, Kind::ring);
  queue->face.size = size;
  queue->face.id = next_queue++;
  queue->doorbell.queue = queue;
  queue->face.doorbell_signal = handle_of(&queue->doorbell);
  queue->agent = agent;
  queue->on_error = callback;
  queue->error_data = data;
  for (uint32_t i = 0; i < size; ++i) header_of(queue->slot(i)) = HSA_PACKET_TYPE_INVALID;
  return queue;
}

bool is_size(uint32_t size) { return size > 0 && (size & (size - 1)) == 0; }

// The object is kept: a doorbell served by another thread may still refer to it.
void destroy(Queue* queue) {
  queue->stop = true;
  std::lock_guard guard(queue->lock);
  if (queue->processor.joinable()) queue->processor.join();
  release(queue->face.base_address);
  if (queue->inner != nullptr) destroy(queue->inner);
}

}  // namespace

void ring(Queue* queue, uint64_t) {
  if (queue->inner != nullptr) intercept(*queue);  // the thread of a plain queue polls the ring
}

void report_memory_fault(hsa_agent_t agent, uint64_t address) {
  std::lock_guard guard(events_lock);
  hsa_amd_event_t event{};
  event.event_type = HSA_AMD_GPU_MEMORY_FAULT_EVENT;
  event.memory_fault.agent = agent;
  event.memory_fault.virtual_address = address / kPage * kPage;
  event.memory_fault.fault_reason_mask = HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT;
  if (event_handler != nullptr && event_handler(&event, event_data) == HSA_STATUS_SUCCESS) return;
  std::fprintf(stderr, "Memory access fault by GPU node-%llu (Agent handle: 0x%llx) on address 0x%llx. Reason: Page not present.\n",
               static_cast<unsigned long long>(agent.handle - 1), static_cast<unsigned long long>(agent.handle),
               static_cast<unsigned long long>(event.memory_fault.virtual_address));
  std::abort();
}

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, hsa_queue_error_callback callback, void* data,
                              uint32_t, uint32_t, hsa_queue_t** queue) {
  if (!is_open()) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (!is_gpu(agent)) return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
  if (!is_size(size)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  Queue* made = make(agent, size, type, callback, data);
  made->processor = std::thread([made] { process(*made); });
  *queue = &made->face;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_intercept_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, hsa_queue_error_callback callback,
                                            void* data, uint32_t private_size, uint32_t group_size, hsa_queue_t** queue) {
  hsa_queue_t* inner = nullptr;
  hsa_status_t status = stand_in::hsa_queue_create(agent, size, type, callback, data, private_size, group_size, &inner);
  if (status != HSA_STATUS_SUCCESS) return status;
  Queue* made = make(agent, size, type, callback, data);
  made->inner = queue_of(inner);
  made->inner->is_profiled = true;
  *queue = &made->face;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_intercept_register(hsa_queue_t* queue, hsa_amd_queue_intercept_handler call, void* data) {
  if (queue_of(queue)->inner == nullptr) return HSA_STATUS_ERROR_INVALID_QUEUE;
  std::lock_guard guard(queue_of(queue)->lock);
  queue_of(queue)->handlers.push_back({call, data});
  return HSA_STATUS_SUCCESS;
}

// Equal requests share one queue.
namespace {
struct Counted { hsa_queue_t* queue; uint64_t agent; int priority, users; };
std::mutex counted_lock;
auto& counted_queues = *new std::vector<Counted>;
}  // namespace

hsa_status_t hsa_amd_counted_queue_acquire(hsa_agent_t agent, hsa_queue_type_t type, hsa_amd_queue_priority_t priority,
                                           hsa_queue_error_callback callback, void* data, uint64_t, hsa_queue_t** queue) {
  std::lock_guard guard(counted_lock);
  for (Counted& known : counted_queues) {
    if (known.agent != agent.handle || known.priority != priority) continue;
    ++known.users;
    *queue = known.queue;
    return HSA_STATUS_SUCCESS;
  }
  hsa_status_t status = stand_in::hsa_queue_create(agent, 1024, type, callback, data, UINT32_MAX, UINT32_MAX, queue);
  if (status == HSA_STATUS_SUCCESS) counted_queues.push_back({*queue, agent.handle, priority, 1});
  return status;
}

hsa_status_t hsa_amd_counted_queue_release(hsa_queue_t* queue) {
  std::lock_guard guard(counted_lock);
  for (auto known = counted_queues.begin(); known != counted_queues.end(); ++known) {
    if (known->queue != queue) continue;
    if (--known->users > 0) return HSA_STATUS_SUCCESS;
    counted_queues.erase(known);
    return stand_in::hsa_queue_destroy(queue);
  }
  return HSA_STATUS_ERROR_INVALID_QUEUE;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  destroy(queue_of(queue));
  return HSA_STATUS_SUCCESS;
}

uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* queue) { return queue_of(queue)->read; }
uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* queue) { return queue_of(queue)->read; }
uint64_t hsa_queue_load_write_index_scacquire(const hsa_queue_t* queue) { return queue_of(queue)->write; }
uint64_t hsa_queue_load_write_index_relaxed(const hsa_queue_t* queue) { return queue_of(queue)->write; }
uint64_t hsa_queue_cas_write_index_screlease(const hsa_queue_t* queue, uint64_t expected, uint64_t value) {
  queue_of(queue)->write.compare_exchange_strong(expected, value);
  return expected;
}
uint64_t hsa_queue_add_write_index_scacq_screl(const hsa_queue_t* queue, uint64_t count) { return queue_of(queue)->write.fetch_add(count); }
uint64_t hsa_queue_add_write_index_scacquire(const hsa_queue_t* queue, uint64_t count) { return queue_of(queue)->write.fetch_add(count); }
uint64_t hsa_queue_add_write_index_relaxed(const hsa_queue_t* queue, uint64_t count) { return queue_of(queue)->write.fetch_add(count); }
uint64_t hsa_queue_add_write_index_screlease(const hsa_queue_t* queue, uint64_t count) { return queue_of(queue)->write.fetch_add(count); }

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t* queue, int enable) {
  queue_of(queue)->is_profiled = enable != 0;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t, hsa_signal_t signal, hsa_amd_profiling_dispatch_time_t* time) {
  if (signal_of(signal)->end == 0) return HSA_STATUS_ERROR;
  *time = {signal_of(signal)->start, signal_of(signal)->end};
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t callback, void* data) {
  std::lock_guard guard(events_lock);
  if (event_handler != nullptr) return HSA_STATUS_ERROR;
  event_handler = callback;
  event_data = data;
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
