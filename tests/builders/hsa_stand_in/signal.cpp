// Signals: values, and one condition variable for all of them.
#include <chrono>
#include <condition_variable>

#include "implementation.h"

namespace stand_in {
namespace {

// Never destroyed, like all state here: threads use it while the process ends.
auto& lock = *new std::mutex;
auto& changed = *new std::condition_variable;

bool holds(int64_t value, hsa_signal_condition_t condition, int64_t compared) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ: return value == compared;
    case HSA_SIGNAL_CONDITION_NE: return value != compared;
    case HSA_SIGNAL_CONDITION_LT: return value < compared;
    default: return value >= compared;
  }
}

void store(hsa_signal_t handle, int64_t value) {
  Signal* signal = signal_of(handle);
  {
    std::lock_guard guard(lock);
    signal->value = value;
  }
  signal_changed();
  if (signal->queue != nullptr) ring(signal->queue, uint64_t(value));
}

void subtract(hsa_signal_t handle, int64_t value) {
  {
    std::lock_guard guard(lock);
    signal_of(handle)->value = signal_of(handle)->value - value;
  }
  signal_changed();
}

int64_t wait(hsa_signal_t handle, hsa_signal_condition_t condition, int64_t compared, uint64_t ticks) {
  Signal* signal = signal_of(handle);
  std::unique_lock guard(lock);
  auto reached = [&] { return holds(signal->value, condition, compared); };
  if (ticks == UINT64_MAX) changed.wait(guard, reached);
  else changed.wait_for(guard, std::chrono::nanoseconds(ticks * (1'000'000'000 / kFrequency)), reached);
  return signal->value;
}

}  // namespace

void signal_changed() { changed.notify_all(); }

bool wait_until_zero(hsa_signal_t handle, const std::atomic<bool>& stop) {
  std::unique_lock guard(lock);
  while (signal_of(handle)->value != 0 && !stop) changed.wait_for(guard, std::chrono::milliseconds(20));
  return !stop;
}

hsa_status_t hsa_signal_create(hsa_signal_value_t initial, uint32_t, const hsa_agent_t*, hsa_signal_t* signal) {
  auto* made = new Signal;
  made->value = initial;
  *signal = handle_of(made);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  delete signal_of(signal);
  return HSA_STATUS_SUCCESS;
}

hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) { return signal_of(signal)->value; }
hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) { return signal_of(signal)->value; }
void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) { store(signal, value); }
void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) { store(signal, value); }
void hsa_signal_subtract_relaxed(hsa_signal_t signal, hsa_signal_value_t value) { subtract(signal, value); }
void hsa_signal_subtract_screlease(hsa_signal_t signal, hsa_signal_value_t value) { subtract(signal, value); }

hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compared,
                                           uint64_t timeout, hsa_wait_state_t) {
  return wait(signal, condition, compared, timeout);
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compared,
                                             uint64_t timeout, hsa_wait_state_t) {
  return wait(signal, condition, compared, timeout);
}

}  // namespace stand_in
