// Functions of the HSA runtime that this library replaces: waits that sleep instead of spinning, so that the cores are left to the
// emulated GPU; doorbells, which wake the threads of queues; and the loading of code objects, whose files have more than the memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "execution.h"

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

FORWARD(int64_t, hsa_signal_wait_scacquire, (hsa_handle signal, int condition, int64_t value, uint64_t timeout, int state)) {
  if (drv_settings()) {
    drv_queues_wake();            // the application may have rung a doorbell by a store that nobody saw
    state = WAIT_BLOCKED;
  }
  return REAL(hsa_signal_wait_scacquire)(signal, condition, value, timeout, state);
}

FORWARD(int64_t, hsa_signal_wait_relaxed, (hsa_handle signal, int condition, int64_t value, uint64_t timeout, int state)) {
  if (drv_settings()) {
    drv_queues_wake();
    state = WAIT_BLOCKED;
  }
  return REAL(hsa_signal_wait_relaxed)(signal, condition, value, timeout, state);
}

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

// ---- code objects ----

FORWARD(int, hsa_code_object_reader_create_from_memory, (const void *code, size_t bytes, hsa_handle *reader)) {
  if (drv_settings()) drv_elf_add(code, bytes);
  return REAL(hsa_code_object_reader_create_from_memory)(code, bytes, reader);
}

FORWARD(int, hsa_code_object_reader_create_from_file, (int file, hsa_handle *reader)) {
  if (drv_settings()) drv_elf_add_file(file);
  return REAL(hsa_code_object_reader_create_from_file)(file, reader);
}
