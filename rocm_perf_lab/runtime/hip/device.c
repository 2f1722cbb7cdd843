// Initialisation, the devices, and the current device of each thread.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "tools.h"

atomic_uint hip_generation;
static struct hip_device devices[HIP_MAX_DEVICES];
static int device_count;
static atomic_int state;          // 0: not initialised, 1: done, -1: failed
static hipError_t failure;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct { unsigned generation; int index; } current;

// ---- initialisation ----

static void in_child(void) {
  if (!atomic_load(&state)) return;
  // Threads, queues and memory of devices belong to the parent: the child starts anew with its first call.
  hip_streams_forget();
  hip_memory_forget_all();
  hip_signals_forget();
  hip_queues_forget();
  hip_events_forget();
  hip_pools_forget();
  hip_virtual_forget();
  hip_peer_copies_forget();
  hip_stage_forget();
  hip_faults_forget();
  hip_modules_forget();
  hip_graphs_forget();
  hip_devices_forget();
  hip_driver_forget();
  hip_tools_forget();
}

static hipError_t open_all(void) {
  HIP_TRY(hip_driver_open());
  HIP_TRY(hip_topology_read(devices, HIP_MAX_DEVICES, &device_count));
  hip_tools_load();
  return hip_signals_open();
}

static void at_end(void) {
  for (int i = 0; atomic_load(&state) == 1 && i < device_count; i++) hip_device_synchronize(&devices[i]);
}

hipError_t hip_initialize(void) {
  int known = atomic_load_explicit(&state, memory_order_acquire);
  if (known) return known > 0 ? hipSuccess : failure;
  static int is_registered;
  pthread_mutex_lock(&lock);
  if (!atomic_load(&state)) {
    if (!is_registered) {
      pthread_atfork(NULL, NULL, in_child);
      atexit(at_end);             // kernels that still run write their output first, as with AMD's runtime
    }
    is_registered = 1;
    failure = open_all();
    atomic_fetch_add(&hip_generation, 1);
    atomic_store_explicit(&state, failure == hipSuccess ? 1 : -1, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return failure;
}

void hip_devices_forget(void) {
  for (int i = 0; i < device_count; i++) close(devices[i].render_fd);
  pthread_mutex_init(&lock, NULL);
  memset(devices, 0, sizeof devices);
  device_count = 0;
  atomic_store(&state, 0);
}

// ---- devices ----

int hip_device_count(void) { return device_count; }

struct hip_device *hip_device_at(int index) { return index >= 0 && index < device_count ? &devices[index] : NULL; }

struct hip_device *hip_current_device(void) {
  if (current.generation != atomic_load_explicit(&hip_generation, memory_order_relaxed)) return &devices[0];
  return &devices[current.index];
}

hipError_t hip_set_current_device(int index) {
  if (!hip_device_at(index)) return hipErrorInvalidDevice;
  current.generation = atomic_load(&hip_generation);
  current.index = index;
  return hipSuccess;
}
