// Functions of the HSA runtime that this library replaces: waits that sleep instead of spinning, so that the cores are left to the
// emulated GPU; doorbells, which wake the threads of queues; and the loading of code objects, whose files have more than the memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "execution.h"
#include "order.h"

enum { WAIT_BLOCKED = 0 /* HSA_WAIT_STATE_BLOCKED */ };
typedef struct { uint64_t handle; } hsa_handle;

// The runtime's own function. It may have been loaded by dlopen() without RTLD_GLOBAL.
static void *runtime_function(_Atomic(void *) *kept, const char *name) {
  void *found = atomic_load_explicit(kept, memory_order_acquire);
  if (found) return found;
  found = dlsym(RTLD_NEXT, name);
  if (!found) {
    void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, name);
  }
  atomic_store_explicit(kept, found, memory_order_release);
  return found;
}

#define FORWARD(result, name, parameters)                      \
  static _Atomic(void *) kept_##name;                          \
  typedef result (*name##_function) parameters;                \
  RPL_EXPORT result name parameters;                           \
  result name parameters
#define REAL(name) ((name##_function)runtime_function(&kept_##name, #name))

// ---- waits ----

typedef int64_t (*wait_function)(hsa_handle signal, int condition, int64_t value, uint64_t timeout, int state);
enum { EQUAL, NOT_EQUAL, LESS, AT_LEAST }; // hsa_signal_condition_t

static int holds(int condition, int64_t seen, int64_t value) {
  switch (condition) {
    case EQUAL: return seen == value;
    case NOT_EQUAL: return seen != value;
    case LESS: return seen < value;
    default: return seen >= value;
  }
}

// The runtime sleeps in a wait that may block, but spins if the signal has no event. Such a wait is replaced by looks at the signal.
static int64_t wait_asleep(wait_function real, hsa_handle signal, int condition, int64_t value, uint64_t timeout_ns) {
  drv_queues_wake();              // the application may have rung a doorbell by a store that nobody saw
  if (((const volatile struct rpl_signal *)signal.handle)->event_mailbox) return real(signal, condition, value, timeout_ns, WAIT_BLOCKED);
  uint64_t begun = drv_nanoseconds();
  for (uint32_t idle = 0;; drv_rest(&idle)) {
    int64_t seen = real(signal, condition, value, 0, WAIT_BLOCKED);
    if (holds(condition, seen, value) || drv_nanoseconds() - begun >= timeout_ns) return seen;
  }
}

#define DEFINE_WAIT(name)                                                                                        \
  FORWARD(int64_t, name, (hsa_handle signal, int condition, int64_t value, uint64_t timeout_ns, int state)) {    \
    if (!drv_settings()) return REAL(name)(signal, condition, value, timeout_ns, state);                         \
    return wait_asleep(REAL(name), signal, condition, value, timeout_ns);                                        \
  }
DEFINE_WAIT(hsa_signal_wait_scacquire)
DEFINE_WAIT(hsa_signal_wait_relaxed)

// ---- doorbells ----

FORWARD(void, hsa_signal_store_screlease, (hsa_handle signal, int64_t value)) {
  REAL(hsa_signal_store_screlease)(signal, value);
  if (drv_settings()) drv_queues_wake();
}

FORWARD(void, hsa_signal_store_relaxed, (hsa_handle signal, int64_t value)) {
  REAL(hsa_signal_store_relaxed)(signal, value);
  if (drv_settings()) drv_queues_wake();
}

FORWARD(void, hsa_signal_store_release, (hsa_handle signal, int64_t value)) {
  REAL(hsa_signal_store_release)(signal, value);
  if (drv_settings()) drv_queues_wake();
}

FORWARD(void, hsa_signal_subtract_screlease, (hsa_handle signal, int64_t value)) {
  REAL(hsa_signal_subtract_screlease)(signal, value);
  if (drv_settings()) drv_queues_wake();
}

// ---- packets ----

// Places in a queue for packets of this thread; the call of HIP that it is in says what they are for.
#define DEFINE_ADD(name)                                       \
  FORWARD(uint64_t, name, (void *queue, uint64_t count)) {     \
    uint64_t first = REAL(name)(queue, count);                 \
    if (drv_settings()) drv_order_packets((uint64_t)queue, first, count); \
    return first;                                              \
  }
DEFINE_ADD(hsa_queue_add_write_index_relaxed)
DEFINE_ADD(hsa_queue_add_write_index_screlease)
DEFINE_ADD(hsa_queue_add_write_index_scacquire)
DEFINE_ADD(hsa_queue_add_write_index_scacq_screl)

// The same for the HIP runtime of runtime/hip, which uses no HSA.
RPL_EXPORT void rpl_driver_packets(uint64_t amd_queue, uint64_t first, uint64_t count);
void rpl_driver_packets(uint64_t amd_queue, uint64_t first, uint64_t count) {
  if (drv_settings()) drv_order_packets(amd_queue, first, count);
}

// ---- code objects ----

FORWARD(int, hsa_code_object_reader_create_from_memory, (const void *code, size_t bytes, hsa_handle *reader)) {
  if (drv_settings()) drv_elf_add(code, bytes);
  return REAL(hsa_code_object_reader_create_from_memory)(code, bytes, reader);
}

FORWARD(int, hsa_code_object_reader_create_from_file, (int file, hsa_handle *reader)) {
  if (drv_settings()) drv_elf_add_file(file);
  return REAL(hsa_code_object_reader_create_from_file)(file, reader);
}
