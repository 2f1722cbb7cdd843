// Shared by the interposed HIP functions (hip_*.c). The driver is preloaded, so that the application's calls come here first; without
// checks they are forwarded and nothing else. Types are those of hip_runtime_api.h as far as they are looked at.
#ifndef RPL_HIP_CALLS_H
#define RPL_HIP_CALLS_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "driver.h"
#include "findings.h"

typedef int hip_error;
typedef void *hip_stream;
typedef void *hip_event;
struct hip_dim3 { uint32_t x, y, z; };
struct hip_extent { size_t width, height, depth; };
struct hip_pitched { void *pointer; size_t pitch, width, height; };
enum { HIP_SUCCESS = 0, HIP_INVALID_VALUE = 1, HIP_OUT_OF_MEMORY = 2, HIP_NOT_INITIALIZED = 3, HIP_INVALID_HANDLE = 400, HIP_NOT_READY = 600,
       HIP_COOPERATIVE_TOO_LARGE = 720 };

// The function of the HIP runtime; NULL if no runtime is loaded.
void *drv_hip_function(_Atomic(void *) *kept, const char *name);
// Whether this call is to be checked: checks are on, and it does not come from inside of a checked call. Then drv_hip_leave() follows.
int drv_hip_enter(void);
void drv_hip_leave(void);
int drv_hip_is_inside(void);      // of a checked call

// Defines an interposed function. In it, REAL(name) is the runtime's and SITE the return address.
#define HIP(name, parameters)                                  \
  static _Atomic(void *) kept_##name;                          \
  typedef hip_error (*name##_function) parameters;             \
  RPL_EXPORT hip_error name parameters;                        \
  hip_error name parameters
#define REAL(name) ((name##_function)drv_hip_function(&kept_##name, #name))
#define SITE ((uint64_t)__builtin_return_address(0))
// Without checks, the call is the runtime's.
#define FORWARD_UNLESS_CHECKED(name, ...)                      \
  if (!REAL(name)) return HIP_NOT_INITIALIZED;                 \
  if (!drv_hip_enter()) return REAL(name)(__VA_ARGS__)

// ---- hip_calls.c ----
int drv_hip_device(void);         // of this thread
// Whether the last finding of this thread is about this call.
int drv_hip_is_reported(uint64_t site);
void drv_hip_report(enum drv_check check, const char *kind, const uint64_t sites[3], const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// ---- hip_streams.c ----
// Whether a stream or event was destroyed; reports its use at `site`.
int drv_hip_stream_is_gone(hip_stream stream, uint64_t site);
int drv_hip_is_capturing(hip_stream stream);
// Waits a while for what a stream does now, if the host's accesses are checked: they are compared with what operations accessed.
void drv_hip_settle(hip_stream stream);
void drv_hip_handles_say_leaks(void);
void drv_hip_handles_forget(void);

// ---- hip_errors.c ----
// A call failed; `what`: NULL if it is a launch that returns nothing to the application.
void drv_hip_failed(const char *what, uint64_t site, hip_error error);
// At the end: the last failure that the application did not notice.
void drv_hip_errors_say_unseen(void);

// ---- hip_memory.c ----
void drv_hip_wait_for_device(void);
#endif
