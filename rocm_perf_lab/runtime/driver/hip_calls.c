// What the interposed HIP functions share: finding the runtime's functions, and what is reported when the application ends.
#define _GNU_SOURCE
#include "hip_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>

#include "allocations.h"
#include "order.h"

enum { TEXT_BYTES = 512, ALL_CHECKS = RPL_ON_DEVICE | RPL_ON_LEAKS | RPL_ON_HOST };

static __thread int depth;        // of checked calls in this thread
static __thread uint64_t reported_site;

static int find_library(struct dl_phdr_info *info, size_t size, void *path) {
  (void)size;
  const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libamdhip64.so", strlen("/libamdhip64.so")) != 0) return 0;
  *(const char **)path = info->dlpi_name;
  return 1;
}

// The runtime may have been loaded by dlopen() without RTLD_GLOBAL.
void *drv_hip_function(_Atomic(void *) *kept, const char *name) {
  void *found = atomic_load_explicit(kept, memory_order_acquire);
  if (found) return found;
  found = dlsym(RTLD_NEXT, name);
  const char *path = NULL;
  if (!found && dl_iterate_phdr(find_library, &path) && path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, name);
  }
  atomic_store_explicit(kept, found, memory_order_release);
  return found;
}

int drv_hip_enter(void) {
  if (depth || !drv_check_is_on(ALL_CHECKS)) return 0;
  depth = 1;
  return 1;
}

void drv_hip_leave(void) { depth = 0; }
int drv_hip_is_inside(void) { return depth; }

int drv_hip_is_reported(uint64_t site) { return reported_site == site; }

int drv_hip_device(void) {
  static _Atomic(void *) kept;
  hip_error (*get)(int *) = (hip_error(*)(int *))drv_hip_function(&kept, "hipGetDevice");
  int device = 0;
  return get && get(&device) == HIP_SUCCESS ? device : 0;
}

void drv_hip_report(enum drv_check check, const char *kind, const uint64_t sites[3], const char *format, ...) {
  char text[TEXT_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  reported_site = sites[0];
  drv_find(&(struct drv_finding){.check = check, .kind = kind, .message = text, .sites = {sites[0], sites[1], sites[2]}});
}

// ---- the end ----

static const char *const NAMES[] = {[RPL_DEVICE_MEMORY] = "device", [RPL_HOST_MEMORY] = "pinned host", [RPL_MANAGED_MEMORY] = "managed",
                                    [RPL_STREAM_MEMORY] = "stream-ordered device", [RPL_REGISTERED_MEMORY] = "registered host"};

static void say_leaked(const struct drv_allocation *a) {
  drv_hip_report(RPL_ON_LEAKS, "memory_leak", (uint64_t[3]){a->site}, "%llu bytes of %s memory allocated at {0} are never freed",
                 (unsigned long long)a->bytes, NAMES[a->kind]);
}

// Runs last at a normal end: preloaded libraries end after all others.
__attribute__((destructor)) static void say_at_end(void) {
  if (!drv_check_is_on(ALL_CHECKS)) return;
  drv_hip_errors_say_unseen();
  if (!drv_check_is_on(RPL_ON_LEAKS)) return;
  drv_allocations_visit(say_leaked);
  drv_hip_handles_say_leaks();
}
