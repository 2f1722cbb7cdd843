// Events: what KFD's kfd_events.c does, with a futex per waiting call.
//
// An event has an age, which counts its settings. Setting an event activates all calls that wait for it at that moment; an
// auto-reset event stays set only if there was none. A call that brings an older age than the event's does not wait, unless its
// thread was told the present age before: ROCr 6.4 keeps the ages of the first two events of a call only, and with KFD its thread
// for asynchronous handlers spins until the third one is set. It looks at its signals between two calls, so it misses nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "system.h"

#define FIRST_OTHER_ID UINT32_C(0x80000000)        // ids of events without a slot in the event page
#define UNSIGNALED UINT64_MAX
#define EVENT_PAGE (UINT64_C(2) << 62)             // "offset" that tells the runtime that the event has a slot
enum { SLOTS = KFD_SIGNAL_EVENT_LIMIT, OTHERS = 256, SLOTS_BEFORE_PAGE = 256, FIRST_AGE = 1, AGE_AFTER_WRAP = 2 };
enum { MILLISECONDS = 1000, NANOSECONDS = 1000000000, NANOSECONDS_OF_MILLISECOND = 1000000, FEW = 64, TOLD = 64 };
#define TIMEOUT_INFINITE UINT32_C(0xffffffff)
#define TIMEOUT_LONGEST UINT32_C(0x7fffffff)
#define TIMEOUT_ROCR_INFINITE UINT32_C(0xfffffffe)

struct call {                                      // one WAIT_EVENTS
  uint32_t wake;                                   // futex
};
struct waiter {
  struct waiter *next, **link;                     // in the event's list; link NULL: not in a list
  struct event *event;                             // NULL: destroyed
  struct call *call;
  int activated, wants_age;
};
struct event {
  uint32_t id, type;
  int auto_reset, signaled;
  uint64_t age, serial;                            // the serial number is unique in the process, unlike the id
  struct waiter *waiters;
  struct kfd_hsa_memory_exception_data memory;
  struct kfd_hsa_hw_exception_data hardware;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event *signals[SLOTS], *others[OTHERS];
static uint64_t last_serial;
static uint32_t signal_count = 1;                  // id 0 is reserved, as in KFD
static _Atomic uint32_t highest;                   // slot in use so far
static uint64_t *_Atomic page;                     // the event page; before the runtime gives one, the driver's own
static uint64_t page_handle, page_slots;
static struct drv_storage *page_storage;

static struct event **entry_of(uint32_t id) {
  if (id < SLOTS)
    return &signals[id];
  return id >= FIRST_OTHER_ID && id < FIRST_OTHER_ID + OTHERS ? &others[id - FIRST_OTHER_ID] : NULL;
}

static struct event *event_of(uint32_t id) {
  struct event **entry = entry_of(id);
  return entry ? *entry : NULL;
}

static void wake(struct call *call) {
  __atomic_store_n(&call->wake, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &call->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void leave(struct waiter *waiter) {
  if (!waiter->link)
    return;
  *waiter->link = waiter->next;
  if (waiter->next)
    waiter->next->link = waiter->link;
  waiter->link = NULL;
}

static void enter(struct waiter *waiter) {
  waiter->next = waiter->event->waiters;
  waiter->link = &waiter->event->waiters;
  if (waiter->next)
    waiter->next->link = &waiter->next;
  waiter->event->waiters = waiter;
}

static void set(struct event *event) {
  event->signaled = !event->auto_reset || !event->waiters;
  if (++event->age == 0)
    event->age = AGE_AFTER_WRAP;
  for (struct waiter *waiter; (waiter = event->waiters);) {
    waiter->activated = 1;
    leave(waiter);
    wake(waiter->call);
  }
}

static int is_signal(uint32_t type) { return type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG_EVENT; }

// ---- the event page ----

static int use_page(uint64_t handle) {
  struct drv_storage *storage = drv_memory_storage(handle);
  if (page_handle || !storage) {
    drv_storage_put(storage);
    return EINVAL;
  }
  uint64_t *mapped = drv_storage_map(storage, 0, storage->size, 0);
  if (!mapped) {
    drv_storage_put(storage);
    return ENOMEM;
  }
  page_slots = storage->size / sizeof *mapped < SLOTS ? storage->size / sizeof *mapped : SLOTS;
  for (uint64_t i = 0; i < page_slots; i++)
    mapped[i] = UNSIGNALED;
  page_handle = handle;
  page_storage = storage;
  page = mapped;
  return 0;
}

int drv_event_page_is(uint64_t handle) { return page_handle && page_handle == handle; }

static int own_page(void) {
  if (page)
    return 0;
  long made = syscall(SYS_mmap, 0, SLOTS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == -1)
    return ENOMEM;
  memset((void *)made, 0xff, SLOTS * sizeof(uint64_t));
  page_slots = SLOTS_BEFORE_PAGE;
  page = (uint64_t *)made;
  return 0;
}

// ---- create, destroy, set, reset ----

static struct event **free_entry(uint32_t type, uint32_t *id) {
  if (is_signal(type)) {
    for (uint32_t i = 1; i < page_slots; i++)
      if (!signals[i]) {
        *id = i;
        return &signals[i];
      }
    return NULL;
  }
  for (uint32_t i = 0; i < OTHERS; i++)
    if (!others[i]) {
      *id = FIRST_OTHER_ID + i;
      return &others[i];
    }
  return NULL;
}

static int create(struct kfd_ioctl_create_event_args *args, struct event *event) {
  int error = args->event_page_offset ? use_page(args->event_page_offset) : 0;
  if (!error && is_signal(args->event_type))
    error = own_page();
  if (error)
    return error;
  struct event **entry = free_entry(args->event_type, &event->id);
  if (!entry)
    return ENOSPC;
  event->type = args->event_type;
  event->auto_reset = args->auto_reset != 0;
  event->age = FIRST_AGE;
  event->serial = ++last_serial;
  *entry = event;
  args->event_page_offset = 0;
  if (is_signal(event->type)) {
    signal_count++;
    if (event->id > highest)
      highest = event->id;
    page[event->id] = UNSIGNALED;
    args->event_page_offset = EVENT_PAGE;
    args->event_slot_index = event->id;
  }
  args->event_id = args->event_trigger_data = event->id;
  return 0;
}

int drv_event_create(struct kfd_ioctl_create_event_args *args) {
  struct event *event = calloc(1, sizeof *event);
  if (!event)
    return ENOMEM;
  pthread_mutex_lock(&lock);
  int error = create(args, event);
  pthread_mutex_unlock(&lock);
  if (error)
    free(event);
  return error;
}

int drv_event_destroy(uint32_t event_id) {
  pthread_mutex_lock(&lock);
  struct event *event = event_of(event_id);
  if (event) {
    for (struct waiter *waiter; (waiter = event->waiters);) {
      leave(waiter);
      wake(waiter->call);
    }
    *entry_of(event_id) = NULL;
    signal_count -= is_signal(event->type);
    free(event);
  }
  pthread_mutex_unlock(&lock);
  return event ? 0 : EINVAL;
}

static int change(uint32_t event_id, int is_set) {
  pthread_mutex_lock(&lock);
  struct event *event = event_of(event_id);
  int is_allowed = event && event->type == KFD_IOC_EVENT_SIGNAL;
  if (is_allowed && is_set)
    set(event);
  else if (is_allowed)
    event->signaled = 0;
  pthread_mutex_unlock(&lock);
  return is_allowed ? 0 : EINVAL;
}

int drv_event_set_by_host(uint32_t event_id) { return change(event_id, 1); }
int drv_event_reset(uint32_t event_id) { return change(event_id, 0); }

void drv_event_set(uint32_t event_id) {
  pthread_mutex_lock(&lock);
  struct event *event = event_of(event_id);
  if (event && is_signal(event->type)) {
    page[event_id] = UNSIGNALED;
    set(event);
  }
  pthread_mutex_unlock(&lock);
}

int drv_events_scan(void) {
  volatile const uint64_t *slots = page;
  uint32_t last = highest;
  int found = 0;
  for (uint32_t i = 1; slots && i <= last; i++)
    if (slots[i] != UNSIGNALED) {
      drv_event_set(i);
      found = 1;
    }
  return found;
}

// ---- wait ----

static struct waiter *make_waiters(uint32_t count, struct waiter *few) {
  return count <= FEW ? memset(few, 0, count * sizeof *few) : calloc(count, sizeof *few);
}

// Ages that this thread was told, by event.
static _Thread_local struct { uint64_t serial, age; } told[TOLD];

static int was_told(const struct event *event) {
  return told[event->id % TOLD].serial == event->serial && told[event->id % TOLD].age == event->age;
}

static uint64_t tell(const struct event *event) {
  told[event->id % TOLD].serial = event->serial;
  return told[event->id % TOLD].age = event->age;
}

static int start_waiting(struct waiter *waiter, struct call *call, const struct kfd_event_data *data) {
  struct event *event = event_of(data->event_id);
  if (!event)
    return EINVAL;
  waiter->event = event;
  waiter->call = call;
  waiter->activated = event->signaled;
  if (event->auto_reset)
    event->signaled = 0;
  // Age 0 comes from runtimes that know no ages.
  if (event->type == KFD_IOC_EVENT_SIGNAL && data->signal_event_data.last_event_age) {
    waiter->wants_age = 1;
    if (event->age != data->signal_event_data.last_event_age && !was_told(event))
      waiter->activated = 1;
  }
  if (!waiter->activated)
    enter(waiter);
  return 0;
}

static uint32_t test(const struct waiter *waiters, uint32_t count, int all) {
  uint32_t activated = 0;
  for (uint32_t i = 0; i < count; i++) {
    // A destroyed event is out of the list without being activated.
    if (!waiters[i].activated && !waiters[i].link)
      return KFD_IOC_WAIT_RESULT_FAIL;
    if (waiters[i].activated && !all)
      return KFD_IOC_WAIT_RESULT_COMPLETE;
    activated += (uint32_t)waiters[i].activated;
  }
  return activated == count ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
}

static int copy_data(const struct waiter *waiters, uint32_t count, struct kfd_event_data *data) {
  for (uint32_t i = 0; i < count; i++) {
    const struct event *event = event_of(data[i].event_id);
    if (!event || event != waiters[i].event)
      return EINVAL;
    if (!waiters[i].activated)
      continue;
    if (event->type == KFD_IOC_EVENT_MEMORY)
      data[i].memory_exception_data = event->memory;
    else if (event->type == KFD_IOC_EVENT_HW_EXCEPTION)
      data[i].hw_exception_data = event->hardware;
    else if (waiters[i].wants_age)
      data[i].signal_event_data.last_event_age = tell(event);
  }
  return 0;
}

static struct timespec deadline_after(uint32_t milliseconds) {
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  uint64_t nanoseconds = (uint64_t)deadline.tv_nsec + (uint64_t)(milliseconds % MILLISECONDS) * NANOSECONDS_OF_MILLISECOND;
  deadline.tv_sec += (time_t)(milliseconds / MILLISECONDS + nanoseconds / NANOSECONDS);
  deadline.tv_nsec = (long)(nanoseconds % NANOSECONDS);
  return deadline;
}

// Waits without the lock until `call` is woken. Returns 0 at the deadline.
static int sleep_until(struct call *call, const struct timespec *deadline) {
  pthread_mutex_unlock(&lock);
  int is_late = 0;
  while (!is_late && !__atomic_load_n(&call->wake, __ATOMIC_ACQUIRE))
    is_late = syscall(SYS_futex, &call->wake, FUTEX_WAIT_BITSET_PRIVATE, 0, deadline, NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
              errno == ETIMEDOUT;
  pthread_mutex_lock(&lock);
  __atomic_store_n(&call->wake, 0, __ATOMIC_RELEASE);
  return !is_late;
}

static int wait_locked(struct kfd_ioctl_wait_events_args *args, struct waiter *waiters) {
  struct kfd_event_data *data = (struct kfd_event_data *)args->events_ptr;
  struct call call = {0};
  uint32_t entered = 0;
  int error = 0;
  for (; !error && entered < args->num_events; entered++)
    error = start_waiting(&waiters[entered], &call, &data[entered]);
  if (!error) {
    int is_forever = args->timeout == TIMEOUT_INFINITE || args->timeout == TIMEOUT_ROCR_INFINITE;
    struct timespec deadline = deadline_after(args->timeout < TIMEOUT_LONGEST ? args->timeout : TIMEOUT_LONGEST);
    uint32_t result = test(waiters, args->num_events, args->wait_for_all != 0);
    for (int is_waiting = args->timeout != 0; is_waiting && result == KFD_IOC_WAIT_RESULT_TIMEOUT;) {
      is_waiting = sleep_until(&call, is_forever ? NULL : &deadline);
      result = test(waiters, args->num_events, args->wait_for_all != 0);
    }
    args->wait_result = result;
    if (result == KFD_IOC_WAIT_RESULT_COMPLETE)
      error = copy_data(waiters, args->num_events, data);
    else if (result == KFD_IOC_WAIT_RESULT_FAIL)
      error = EIO;
  }
  for (uint32_t i = 0; i < entered; i++) {
    leave(&waiters[i]);
    waiters[i].call = NULL;
  }
  if (error)
    args->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
  return error;
}

int drv_events_wait(struct kfd_ioctl_wait_events_args *args) {
  struct waiter few[FEW];
  if (args->num_events && !args->events_ptr)
    return EFAULT;
  struct waiter *waiters = make_waiters(args->num_events, few);
  if (!waiters)
    return ENOMEM;
  int error = errno;
  drv_queues_wake();  // the runtime may have rung a doorbell by a store that nobody saw
  pthread_mutex_lock(&lock);
  int result = wait_locked(args, waiters);
  pthread_mutex_unlock(&lock);
  errno = error;
  if (waiters != few)
    free(waiters);
  return result;
}

// ---- exceptions ----

static int raise(uint32_t type, const struct kfd_hsa_memory_exception_data *memory,
                 const struct kfd_hsa_hw_exception_data *hardware) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < OTHERS; i++) {
    struct event *event = others[i];
    if (!event || event->type != type)
      continue;
    found = 1;
    if (memory)
      event->memory = *memory;
    if (hardware)
      event->hardware = *hardware;
    set(event);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void drv_event_memory_fault(uint32_t gpu_id, uint64_t address, int not_present, int read_only) {
  struct kfd_hsa_memory_exception_data data = {.va = address & ~(uint64_t)(RPL_PAGE_BYTES - 1), .gpu_id = gpu_id};
  data.failure.NotPresent = not_present != 0;
  data.failure.ReadOnly = read_only != 0;
  drv_smi_memory_fault(gpu_id);
  if (!raise(KFD_IOC_EVENT_MEMORY, &data, NULL))
    drv_log(1, "memory fault of GPU %#x at %#llx: no event of the runtime waits for it", gpu_id, (unsigned long long)address);
}

void drv_event_hardware_exception(uint32_t gpu_id, int reset_cause) {
  // The runtime ignores exceptions without loss of memory; the kernel driver always reports one.
  struct kfd_hsa_hw_exception_data data = {KFD_HW_EXCEPTION_WHOLE_GPU_RESET, (uint32_t)reset_cause, 1, gpu_id};
  raise(KFD_IOC_EVENT_HW_EXCEPTION, NULL, &data);
}

void drv_events_forget(void) {
  pthread_mutex_init(&lock, NULL);
  memset(signals, 0, sizeof signals);
  memset(others, 0, sizeof others);
  signal_count = 1;
  highest = 0;
  page = NULL;
  page_handle = page_slots = 0;
  page_storage = NULL;
}
