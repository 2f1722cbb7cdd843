// Executes the packets of one queue of the Architected Queuing Language (HSA Platform System Architecture 1.2, section 2.9).
#include "aql.h"

#include <linux/kfd_ioctl.h>

enum { TYPE_MASK = 0xff, HEADER_INVALID = RPL_PACKET_INVALID, DEPENDENCIES = 5, VENDOR_SHIFT = 16, NS_PER_HOUR_SHIFT = 42 };
enum condition { EQUAL, NOT_EQUAL, LESS, GREATER_EQUAL };

static union rpl_packet *packet_at(const struct drv_aql *aql) {
  return (union rpl_packet *)(aql->ring + aql->read % aql->packets * RPL_PACKET_BYTES);
}

int drv_aql_ready(const struct drv_aql *aql) {
  return (__atomic_load_n(&packet_at(aql)->header, __ATOMIC_ACQUIRE) & TYPE_MASK) != RPL_PACKET_INVALID;
}

// ---- completion ----

// Frees the packet's place in the ring, then completes its signal.
static void complete(struct drv_aql *aql, union rpl_packet *packet, struct rpl_signal *signal, uint64_t start_ns, uint64_t end_ns) {
  __atomic_store_n(&packet->header, (uint16_t)HEADER_INVALID, __ATOMIC_RELEASE);
  aql->read++;
  __atomic_store_n(aql->read_index, aql->read, __ATOMIC_RELEASE);
  aql->now_ns = end_ns;
  drv_signal_complete(signal, start_ns, end_ns);
}

static uint64_t amd_queue(const struct drv_aql *aql) { return (uint64_t)aql->read_index - RPL_QUEUE_READ_INDEX; }

static void report_exception(const struct drv_aql *aql, uint32_t exception) {
  const struct kfd_context_save_area_header *area = (const struct kfd_context_save_area_header *)aql->save_area;
  if (!area || !area->err_payload_addr) return;
  __atomic_fetch_or((uint64_t *)area->err_payload_addr, 1ull << (exception - 1), __ATOMIC_SEQ_CST);
  if (area->err_event_id) drv_event_set(area->err_event_id);
}

// Stops the queue and tells the runtime why.
static void fail(struct drv_aql *aql, struct rpl_queue_error error) {
  aql->has_failed = 1;
  report_exception(aql, error.exception);
  struct rpl_signal *signal = *(struct rpl_signal **)(amd_queue(aql) + RPL_QUEUE_INACTIVE_SIGNAL);
  if (!signal) return;
  uint64_t mailbox = signal->event_mailbox;
  uint32_t event = signal->event_id;
  __atomic_store_n(&signal->value, (int64_t)error.code, __ATOMIC_RELEASE);
  if (mailbox && event) drv_event_set(event);
}

static void fail_dispatch(struct drv_aql *aql, const struct drv_outcome *outcome) {
  switch (outcome->failed) {
    case RPL_FAILED_MEMORY:
      aql->has_failed = 1;
      drv_event_memory_fault(aql->gpu_id, outcome->address, 1, 0);
      return;
    case RPL_FAILED_READ_ONLY:
      aql->has_failed = 1;
      drv_event_memory_fault(aql->gpu_id, outcome->address, 0, 1);
      return;
    case RPL_FAILED_LIMIT:
      aql->has_failed = 1;
      drv_event_hardware_exception(aql->gpu_id, 0);
      return;
    case RPL_FAILED_STOPPED: aql->has_failed = 1; return;
    case RPL_FAILED_TRAP: fail(aql, RPL_TRAP); return;
    case RPL_FAILED_LDS: fail(aql, RPL_APERTURE); return;
    case RPL_FAILED_TRANSLATION: fail(aql, RPL_ILLEGAL); return;
    case RPL_FAILED_DIMENSIONS: fail(aql, RPL_BAD_DIMENSIONS); return;
    case RPL_FAILED_WORKGROUP: fail(aql, RPL_BAD_WORKGROUP); return;
    case RPL_FAILED_LDS_SIZE: fail(aql, RPL_BAD_LDS); return;
    default: fail(aql, RPL_ILLEGAL);
  }
}

// ---- kinds of packets ----

static void dispatch(struct drv_aql *aql, union rpl_packet *packet) {
  struct drv_queue_info queue = {aql->queue_id, aql->gpu_id, amd_queue(aql)};
  uint64_t submitted = drv_nanoseconds(), start = aql->now_ns;
  struct drv_outcome outcome;
  drv_dispatch(&queue, &packet->dispatch, (uint64_t)packet, aql->read, aql->stop, &outcome);
  uint64_t end = start + outcome.duration_ns;
  drv_timing_record(outcome.timing, submitted < start ? submitted : start, start, end);
  if (outcome.failed) fail_dispatch(aql, &outcome);
  else complete(aql, packet, packet->dispatch.completion, start, end);
}

static int64_t value_of(const struct rpl_signal *signal) { return __atomic_load_n(&signal->value, __ATOMIC_ACQUIRE); }

// A signal that a packet may have to wait for.
struct wait { const struct rpl_signal *signal; uint64_t end_ticks; int is_pending; };

static struct wait wait_for(const struct rpl_signal *signal) {
  return (struct wait){signal, signal ? signal->end_ticks : 0, signal && value_of(signal) != 0};
}

// Start of a packet after a wait: not before the packet that completed the signal ended on its own timeline. The host does not write
// times: what it completed counts from now on, and times of long ago or far ahead mean nothing.
static uint64_t after(uint64_t start_ns, const struct wait *wait) {
  if (!wait->signal) return start_ns;
  uint64_t end = wait->signal->end_ticks * RPL_TICK_NS;
  if (wait->is_pending && wait->signal->end_ticks == wait->end_ticks) end = drv_nanoseconds();
  return end > start_ns && end - start_ns < 1ull << NS_PER_HOUR_SHIFT ? end : start_ns;
}

// Waits until `test` holds or the queue is destroyed. Returns whether it holds.
static int wait_until(const struct drv_aql *aql, int (*test)(const union rpl_packet *packet), const union rpl_packet *packet) {
  uint32_t idle = 0;
  while (!test(packet)) {
    if (atomic_load_explicit(aql->stop, memory_order_relaxed)) return 0;
    drv_rest(&idle);
  }
  return 1;
}

static int all_done(const union rpl_packet *packet) {
  for (int k = 0; k < DEPENDENCIES; k++)
    if (packet->barrier.dependencies[k] && value_of(packet->barrier.dependencies[k]) != 0) return 0;
  return 1;
}

static int any_done(const union rpl_packet *packet) {
  int waits = 0;
  for (int k = 0; k < DEPENDENCIES; k++) {
    if (!packet->barrier.dependencies[k]) continue;
    if (value_of(packet->barrier.dependencies[k]) == 0) return 1;
    waits = 1;
  }
  return !waits;
}

static void barrier(struct drv_aql *aql, union rpl_packet *packet, int waits_for_all) {
  struct wait waits[DEPENDENCIES];
  for (int k = 0; k < DEPENDENCIES; k++) waits[k] = wait_for(packet->barrier.dependencies[k]);
  if (!wait_until(aql, waits_for_all ? all_done : any_done, packet)) return;
  uint64_t start = aql->now_ns;
  for (int k = 0; k < DEPENDENCIES; k++)
    if (waits[k].signal && value_of(waits[k].signal) == 0) start = after(start, &waits[k]);
  complete(aql, packet, packet->barrier.completion, start, start);
}

static int value_holds(const union rpl_packet *packet) {
  const struct rpl_barrier_value_packet *p = &packet->value;
  if (!p->signal) return 1;
  int64_t value = value_of(p->signal) & p->mask;
  switch (p->condition) {
    case EQUAL: return value == p->value;
    case NOT_EQUAL: return value != p->value;
    case LESS: return value < p->value;
    default: return value >= p->value;
  }
}

static void vendor(struct drv_aql *aql, union rpl_packet *packet) {
  switch (packet->value.format) {
    case RPL_VENDOR_PM4:          // the runtime invalidates the instruction cache after it has loaded code
      drv_kernels_invalidate();
      complete(aql, packet, packet->value.completion, aql->now_ns, aql->now_ns);
      return;
    case RPL_VENDOR_BARRIER_VALUE: {
      struct wait wait = wait_for(packet->value.signal);
      wait.is_pending = !value_holds(packet);
      if (!wait_until(aql, value_holds, packet)) return;
      uint64_t start = after(aql->now_ns, &wait);
      complete(aql, packet, packet->value.completion, start, start);
      return;
    }
    default: fail(aql, RPL_BAD_PACKET);
  }
}

void drv_aql_execute(struct drv_aql *aql) {
  union rpl_packet *packet = packet_at(aql);
  switch (packet->header & TYPE_MASK) {
    case RPL_PACKET_DISPATCH: dispatch(aql, packet); return;
    case RPL_PACKET_BARRIER_AND: barrier(aql, packet, 1); return;
    case RPL_PACKET_BARRIER_OR: barrier(aql, packet, 0); return;
    case RPL_PACKET_VENDOR: vendor(aql, packet); return;
    default: fail(aql, RPL_BAD_PACKET);
  }
}
