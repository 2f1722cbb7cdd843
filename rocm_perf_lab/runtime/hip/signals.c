// Signals, KFD events, and waiting for signals: a thread looks at the value for a moment and then sleeps on a KFD event.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core.h"

enum { SLAB_BYTES = 256 << 10, EVENTS = 32, PAGE_SLOTS = 4096, SPINS = 200, YIELDS = 4, FOR_EVER = -1 };
static struct hip_signal *free_signals;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t events[EVENTS], next_event;
static uint64_t page_handle;
static uint64_t *page;
_Static_assert(sizeof(struct hip_signal) == 128, "signals are aligned to 128 bytes");

// ---- KFD events ----

uint64_t *hip_event_slot(uint32_t event_id) { return page + event_id % PAGE_SLOTS; }

int hip_kfd_event_create(uint32_t type, uint32_t *id) {
  struct kfd_ioctl_create_event_args args = {.event_type = type, .auto_reset = type == KFD_IOC_EVENT_SIGNAL};
  args.event_page_offset = type == KFD_IOC_EVENT_SIGNAL ? page_handle : 0;
  int error = hip_kfd(AMDKFD_IOC_CREATE_EVENT, &args);
  *id = args.event_id;
  if (!error && type == KFD_IOC_EVENT_SIGNAL) page_handle = 0;  // it is announced once
  return error;
}

hipError_t hip_signals_open(void) {
  struct hip_memory block;
  HIP_TRY(hip_memory_allocate(hip_device_at(0), HIP_MEMORY_INTERNAL, PAGE_SLOTS * sizeof *page, 0, 0, &block));
  page_handle = block.handle;
  page = (uint64_t *)block.address;
  for (int i = 0; i < EVENTS; i++)
    if (hip_kfd_event_create(KFD_IOC_EVENT_SIGNAL, &events[i])) return hipErrorOutOfMemory;
  return hipSuccess;
}

// ---- signals ----

static int add_slab(void) {
  struct hip_memory block;
  if (hip_memory_allocate(hip_device_at(0), HIP_MEMORY_INTERNAL, SLAB_BYTES, 0, 0, &block) != hipSuccess) return 0;
  struct hip_signal *signals = (struct hip_signal *)block.address;
  for (uint64_t i = 0; i < SLAB_BYTES / sizeof *signals; i++) {
    uint32_t event = events[next_event++ % EVENTS];
    signals[i] = (struct hip_signal){.kind = 1, .event_mailbox = (uint64_t)hip_event_slot(event), .event_id = event};
    signals[i].next_free = free_signals;
    free_signals = &signals[i];
  }
  return 1;
}

struct hip_signal *hip_signal_create(int64_t value) {
  pthread_mutex_lock(&lock);
  struct hip_signal *signal = free_signals || add_slab() ? free_signals : NULL;
  if (signal) free_signals = signal->next_free;
  pthread_mutex_unlock(&lock);
  if (!signal) return NULL;
  signal->start_ticks = signal->end_ticks = 0;
  atomic_store(&signal->value, value);
  atomic_store(&signal->references, 1);
  return signal;
}

void hip_signal_hold(struct hip_signal *signal) { atomic_fetch_add(&signal->references, 1); }

void hip_signal_release(struct hip_signal *signal) {
  if (!signal || atomic_fetch_sub(&signal->references, 1) != 1) return;
  pthread_mutex_lock(&lock);
  signal->next_free = free_signals;
  free_signals = signal;
  pthread_mutex_unlock(&lock);
}

int64_t hip_signal_load(const struct hip_signal *signal) { return atomic_load_explicit(&signal->value, memory_order_acquire); }

void hip_signal_store(struct hip_signal *signal, int64_t value) {
  atomic_store(&signal->value, value);
  struct kfd_ioctl_set_event_args args = {.event_id = signal->event_id};
  if (signal->event_id) hip_kfd(AMDKFD_IOC_SET_EVENT, &args);
  hip_ring_driver();
}

// ---- waiting ----

static int is_changed(const struct hip_signal *signal, int64_t from, int until_done) {
  int64_t value = hip_signal_load(signal);
  return until_done ? value <= 0 : value != from;
}

// Signals of another process have no event here: look at them from time to time.
static void wait_without_event(const struct hip_signal *signal, int64_t from, int until_done) {
  enum { FIRST_NS = 20000, LONGEST_NS = 1000000 };
  struct timespec pause = {.tv_nsec = FIRST_NS};
  while (!is_changed(signal, from, until_done)) {
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < LONGEST_NS) pause.tv_nsec *= 2;
  }
}

static void wait_for(const struct hip_signal *signal, int64_t from, int until_done) {
  for (int i = 0; i < SPINS; i++) {
    if (is_changed(signal, from, until_done)) return;
    __builtin_ia32_pause();
  }
  for (int i = 0; i < YIELDS; i++) {
    sched_yield();
    if (is_changed(signal, from, until_done)) return;
  }
  if (!signal->event_id) {
    wait_without_event(signal, from, until_done);
    return;
  }
  // The age of the event makes a wait return at once if the event was set since the last look.
  struct kfd_event_data data = {.event_id = signal->event_id, .signal_event_data = {.last_event_age = 1}};
  while (!is_changed(signal, from, until_done)) {
    struct kfd_ioctl_wait_events_args args = {.events_ptr = (uint64_t)&data, .num_events = 1, .timeout = (uint32_t)FOR_EVER};
    if (hip_kfd(AMDKFD_IOC_WAIT_EVENTS, &args)) wait_without_event(signal, from, until_done);
  }
}

void hip_signal_wait(struct hip_signal *signal) { wait_for(signal, 0, 1); }

void hip_signal_wait_change(struct hip_signal *signal, int64_t value) { wait_for(signal, value, 0); }

void hip_signals_forget(void) {
  pthread_mutex_init(&lock, NULL);
  free_signals = NULL;
  page = NULL;
  page_handle = 0;
}
