#include "timing.h"

#include <cstring>

namespace capture {
namespace {

// Offset and size of the dispatch times in amd_signal_t (amd_hsa_signal.h).
constexpr size_t kSignalStart = 32, kSignalTimes = 16;
constexpr std::chrono::hours kNoLimit{24 * 365};
constexpr int kConversions = 16;
constexpr uint64_t kTolerance = 100;  // ticks

}  // namespace

void copy_times(hsa_signal_t from, hsa_signal_t to) {
  std::memcpy(reinterpret_cast<char*>(to.handle) + kSignalStart, reinterpret_cast<char*>(from.handle) + kSignalStart, kSignalTimes);
}

bool dispatch_time(const Api& api, hsa_agent_t agent, hsa_signal_t done, hsa_amd_profiling_dispatch_time_t& time) {
  uint64_t earlier = 0;
  for (int i = 0; i < kConversions; ++i) {
    if (api.hsa_amd_profiling_get_dispatch_time(agent, done, &time) != HSA_STATUS_SUCCESS) return false;
    const uint64_t ticks = time.end - time.start;  // very large if the end is before the start
    const uint64_t difference = ticks > earlier ? ticks - earlier : earlier - ticks;
    if (i > 0 && time.end >= time.start && difference <= kTolerance + ticks / 100) return true;
    earlier = ticks;
  }
  return false;
}

hsa_signal_t Timing::signal() {
  std::lock_guard guard(lock_);
  hsa_signal_t found{};
  if (free_signals_.empty()) {
    api_.hsa_signal_create(1, 0, nullptr, &found);
    return found;
  }
  found = free_signals_.back();
  free_signals_.pop_back();
  api_.hsa_signal_store_screlease(found, 1);
  return found;
}

void Timing::submit(const hsa_kernel_dispatch_packet_t& packet, Queue& queue, PacketWriter writer, const std::string& kernel,
                    const std::string& shape, uint64_t index) {
  auto copy = packet;
  copy.completion_signal = signal();
  if (copy.completion_signal.handle == 0) return writer(&packet, 1);
  if (!queue.profiled.exchange(true)) api_.hsa_amd_profiling_set_profiler_enabled(queue.queue, 1);
  Collector* collector;
  {
    std::lock_guard guard(lock_);
    if (frequency_ == 0) api_.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency_);
    auto& place = collectors_[&queue];
    if (place == nullptr) {
      place = std::make_unique<Collector>();
      std::thread([this, &collector = *place] { collect(collector); }).detach();
    }
    collector = place.get();
  }
  ++submitted_;
  writer(&copy, 1);
  {
    std::lock_guard guard(collector->lock);
    collector->pending.push_back({copy.completion_signal, packet.completion_signal, queue.agent, kernel, shape, index});
  }
  collector->changed.notify_one();
}

void Timing::collect(Collector& collector) {
  for (;;) {
    std::unique_lock guard(collector.lock);
    collector.changed.wait(guard, [&] { return !collector.pending.empty(); });
    const Pending pending = std::move(collector.pending.front());
    collector.pending.pop_front();
    guard.unlock();
    wait(api_, pending.done, kNoLimit);
    take(pending);
    ++collected_;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    if (changed_at_.exchange(second) != second) when_changed_();
  }
}

void Timing::take(const Pending& pending) {
  hsa_amd_profiling_dispatch_time_t time{};
  const bool is_known = dispatch_time(api_, pending.agent, pending.done, time);
  if (pending.original.handle != 0) {
    copy_times(pending.done, pending.original);  // the application may read them
    api_.hsa_signal_subtract_screlease(pending.original, 1);
  }
  std::lock_guard guard(lock_);
  free_signals_.push_back(pending.done);
  if (is_known) samples_[pending.kernel].push_back({pending.index, time.end - time.start, pending.shape});
}

void Timing::settle(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (collected_ < submitted_ && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Timing::write(Json& json) {
  std::lock_guard guard(lock_);
  json.open('{').member("frequency", frequency_).key("kernels").open('{');
  for (const auto& [kernel, samples] : samples_) {
    std::map<std::string, size_t> numbers;  // of shapes
    std::vector<std::string> shapes;
    for (const Sample& sample : samples)
      if (numbers.emplace(sample.shape, shapes.size()).second) shapes.push_back(sample.shape);
    json.key(kernel).open('{').key("shapes").open('[');
    for (const std::string& shape : shapes) json.value(shape);
    json.close(']').key("dispatches").open('[');  // [index, number of the shape, ticks]
    for (const Sample& sample : samples) json.open('[').value(sample.index).value(uint64_t(numbers[sample.shape])).value(sample.ticks).close(']');
    json.close(']').close('}');
  }
  json.close('}').close('}');
}

}  // namespace capture
