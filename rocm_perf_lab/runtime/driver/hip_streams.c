// Interposed HIP functions of streams and events: their life, and the order that they make.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hip_calls.h"
#include "host_races.h"
#include "order.h"

enum { MOST_HANDLES = 1024, NON_BLOCKING = 1, SETTLE_PAUSE_NS = 20000, SETTLE_NS = 1000000000, MOST_VAIN_WAITS = 4 };
enum handle_kind { STREAM, EVENT };
static const char *const KINDS[] = {"stream", "event"};

// A stream or event; destroyed ones stay known until their handle is used again.
struct handle { void *value; uint64_t site, destroyed_site; enum handle_kind kind; int is_captured; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle handles[MOST_HANDLES];
static uint64_t handle_count, captures, captures_now;

static struct handle *find(void *value) {
  for (uint64_t k = 0; value && k < handle_count; k++)
    if (handles[k].value == value) return &handles[k];
  return NULL;
}

static void created(void *value, enum handle_kind kind, uint64_t site) {
  pthread_mutex_lock(&lock);
  struct handle *h = find(value);
  for (uint64_t k = 0; !h && handle_count == MOST_HANDLES && k < handle_count; k++)
    if (handles[k].destroyed_site) h = &handles[k];
  if (!h && handle_count < MOST_HANDLES) h = &handles[handle_count++];
  if (h) *h = (struct handle){.value = value, .kind = kind, .site = site};
  pthread_mutex_unlock(&lock);
}

// Reports the use of a destroyed stream or event. Returns whether it is one.
static int is_gone(void *value, uint64_t site) {
  pthread_mutex_lock(&lock);
  const struct handle *h = find(value);
  struct handle copy = h ? *h : (struct handle){0};
  pthread_mutex_unlock(&lock);
  if (!copy.destroyed_site) return 0;
  drv_hip_report(RPL_ON_HOST, copy.kind == STREAM ? "destroyed_stream" : "destroyed_event", (uint64_t[3]){site, copy.destroyed_site, copy.site},
                 "the call at {0} uses the %s that was created at {2} and destroyed at {1}", KINDS[copy.kind]);
  return 1;
}

int drv_hip_stream_is_gone(hip_stream stream, uint64_t site) { return is_gone(stream, site); }

static void destroyed(void *value, uint64_t site) {
  pthread_mutex_lock(&lock);
  struct handle *h = find(value);
  if (h) h->destroyed_site = site;
  pthread_mutex_unlock(&lock);
}

int drv_hip_is_capturing(hip_stream stream) {
  static _Atomic(void *) kept;
  if (!__atomic_load_n(&captures, __ATOMIC_RELAXED)) return 0;
  int status = 0;
  hip_error (*ask)(hip_stream, int *) = (hip_error(*)(hip_stream, int *))drv_hip_function(&kept, "hipStreamIsCapturing");
  return ask && ask(stream, &status) == HIP_SUCCESS && status == 1;
}

void drv_hip_settle(hip_stream stream) {
  static _Atomic(void *) kept;
  static _Atomic int waited_in_vain;   // a kernel may wait for the host
  const struct timespec pause = {.tv_nsec = SETTLE_PAUSE_NS};
  hip_error (*ready)(hip_stream) = (hip_error(*)(hip_stream))drv_hip_function(&kept, "hipStreamQuery");
  if (!ready || !drv_host_races_are_on() || __atomic_load_n(&captures_now, __ATOMIC_RELAXED) || waited_in_vain == MOST_VAIN_WAITS) return;
  for (uint64_t begin = drv_nanoseconds(); ready(stream) == HIP_NOT_READY; nanosleep(&pause, NULL)) {
    if (drv_service_is_busy()) begin = drv_nanoseconds();
    if (drv_nanoseconds() - begin < SETTLE_NS) continue;
    waited_in_vain++;
    return;
  }
}

void drv_hip_handles_say_leaks(void) {
  for (uint64_t k = 0; k < handle_count; k++) {
    const struct handle *h = &handles[k];
    if (!h->destroyed_site)
      drv_hip_report(RPL_ON_LEAKS, h->kind == STREAM ? "stream_leak" : "event_leak", (uint64_t[3]){h->site},
                     "the %s created at {0} is never destroyed", KINDS[h->kind]);
  }
}

void drv_hip_handles_forget(void) {
  pthread_mutex_init(&lock, NULL);
  handle_count = captures = captures_now = 0;
}

// ---- streams ----

static hip_error stream_created(hip_error error, hip_stream *stream, unsigned flags, uint64_t site) {
  if (error == HIP_SUCCESS) {
    created(*stream, STREAM, site);
    drv_order_stream_created(*stream, drv_hip_device(), !(flags & NON_BLOCKING));
  }
  drv_hip_leave();
  return error;
}

HIP(hipStreamCreate, (hip_stream *stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamCreate, stream);
  return stream_created(REAL(hipStreamCreate)(stream), stream, 0, SITE);
}

HIP(hipStreamCreateWithFlags, (hip_stream *stream, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipStreamCreateWithFlags, stream, flags);
  return stream_created(REAL(hipStreamCreateWithFlags)(stream, flags), stream, flags, SITE);
}

HIP(hipStreamCreateWithPriority, (hip_stream *stream, unsigned flags, int priority)) {
  FORWARD_UNLESS_CHECKED(hipStreamCreateWithPriority, stream, flags, priority);
  return stream_created(REAL(hipStreamCreateWithPriority)(stream, flags, priority), stream, flags, SITE);
}

HIP(hipStreamDestroy, (hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamDestroy, stream);
  hip_error error = HIP_INVALID_HANDLE;
  if (!is_gone(stream, SITE)) {
    error = REAL(hipStreamDestroy)(stream);
    if (error == HIP_SUCCESS) {
      destroyed(stream, SITE);
      drv_order_stream_destroyed(stream);
    }
  }
  drv_hip_leave();
  return error;
}

#define WAITED(name, stream)                                   \
  hip_error error = HIP_INVALID_HANDLE;                        \
  if (!is_gone(stream, SITE)) error = REAL(name)(stream);      \
  if (error == HIP_SUCCESS) drv_order_host_waits(stream, drv_hip_device()); \
  drv_hip_leave();                                             \
  return error
#define PER_THREAD ((hip_stream)2)

HIP(hipStreamSynchronize, (hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamSynchronize, stream);
  WAITED(hipStreamSynchronize, stream);
}
HIP(hipStreamSynchronize_spt, (hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamSynchronize_spt, stream);
  hip_error error = REAL(hipStreamSynchronize_spt)(stream);
  drv_order_host_waits(stream ? stream : PER_THREAD, drv_hip_device());
  drv_hip_leave();
  return error;
}
HIP(hipStreamQuery, (hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamQuery, stream);
  WAITED(hipStreamQuery, stream);
}
HIP(hipStreamQuery_spt, (hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipStreamQuery_spt, stream);
  hip_error error = REAL(hipStreamQuery_spt)(stream);
  if (error == HIP_SUCCESS) drv_order_host_waits(stream ? stream : PER_THREAD, drv_hip_device());
  drv_hip_leave();
  return error;
}

#define DEFINE_DEVICE_WAIT(name)                               \
  HIP(name, (void)) {                                          \
    FORWARD_UNLESS_CHECKED(name);                              \
    hip_error error = REAL(name)();                            \
    drv_order_host_waits_for_device(drv_hip_device());         \
    drv_hip_leave();                                           \
    return error;                                              \
  }
DEFINE_DEVICE_WAIT(hipDeviceSynchronize)
DEFINE_DEVICE_WAIT(hipCtxSynchronize)

// ---- events ----

static hip_error event_created(hip_error error, hip_event *event, uint64_t site) {
  if (error == HIP_SUCCESS) created(*event, EVENT, site);
  drv_hip_leave();
  return error;
}

HIP(hipEventCreate, (hip_event *event)) {
  FORWARD_UNLESS_CHECKED(hipEventCreate, event);
  return event_created(REAL(hipEventCreate)(event), event, SITE);
}

HIP(hipEventCreateWithFlags, (hip_event *event, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipEventCreateWithFlags, event, flags);
  return event_created(REAL(hipEventCreateWithFlags)(event, flags), event, SITE);
}

HIP(hipEventDestroy, (hip_event event)) {
  FORWARD_UNLESS_CHECKED(hipEventDestroy, event);
  hip_error error = HIP_INVALID_HANDLE;
  if (!is_gone(event, SITE)) {
    error = REAL(hipEventDestroy)(event);
    if (error == HIP_SUCCESS) {
      destroyed(event, SITE);
      drv_order_event_destroyed(event);
    }
  }
  drv_hip_leave();
  return error;
}

static hip_error recorded(hip_error error, hip_event event, hip_stream stream) {
  if (error == HIP_SUCCESS) drv_order_event_recorded(event, stream, drv_hip_device());
  drv_hip_leave();
  return error;
}

#define DEFINE_RECORD(name, default_stream)                                                                       \
  HIP(name, (hip_event event, hip_stream stream)) {                                                               \
    FORWARD_UNLESS_CHECKED(name, event, stream);                                                                  \
    int gone = is_gone(event, SITE) | is_gone(stream, SITE);                                                      \
    return recorded(gone ? HIP_INVALID_HANDLE : REAL(name)(event, stream), event, stream ? stream : (default_stream)); \
  }
DEFINE_RECORD(hipEventRecord, NULL)
DEFINE_RECORD(hipEventRecord_spt, PER_THREAD)

HIP(hipEventRecordWithFlags, (hip_event event, hip_stream stream, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipEventRecordWithFlags, event, stream, flags);
  int gone = is_gone(event, SITE) | is_gone(stream, SITE);
  return recorded(gone ? HIP_INVALID_HANDLE : REAL(hipEventRecordWithFlags)(event, stream, flags), event, stream);
}

#define DEFINE_EVENT_WAIT(name)                                                \
  HIP(name, (hip_event event)) {                                               \
    FORWARD_UNLESS_CHECKED(name, event);                                       \
    hip_error error = HIP_INVALID_HANDLE;                                      \
    if (!is_gone(event, SITE)) error = REAL(name)(event);                      \
    if (error == HIP_SUCCESS) drv_order_host_waits_for_event(event);           \
    drv_hip_leave();                                                           \
    return error;                                                              \
  }
DEFINE_EVENT_WAIT(hipEventSynchronize)
DEFINE_EVENT_WAIT(hipEventQuery)

HIP(hipEventElapsedTime, (float *milliseconds, hip_event start, hip_event stop)) {
  FORWARD_UNLESS_CHECKED(hipEventElapsedTime, milliseconds, start, stop);
  int gone = is_gone(start, SITE) | is_gone(stop, SITE);
  hip_error error = gone ? HIP_INVALID_HANDLE : REAL(hipEventElapsedTime)(milliseconds, start, stop);
  if (error == HIP_SUCCESS) drv_order_host_waits_for_event(start);
  if (error == HIP_SUCCESS) drv_order_host_waits_for_event(stop);
  drv_hip_leave();
  return error;
}

#define DEFINE_STREAM_WAIT(name, default_stream)                                                                  \
  HIP(name, (hip_stream stream, hip_event event, unsigned flags)) {                                               \
    FORWARD_UNLESS_CHECKED(name, stream, event, flags);                                                           \
    int gone = is_gone(event, SITE) | is_gone(stream, SITE);                                                      \
    hip_error error = gone ? HIP_INVALID_HANDLE : REAL(name)(stream, event, flags);                               \
    if (error == HIP_SUCCESS) drv_order_stream_waits(stream ? stream : (default_stream), drv_hip_device(), event); \
    drv_hip_leave();                                                                                              \
    return error;                                                                                                 \
  }
DEFINE_STREAM_WAIT(hipStreamWaitEvent, NULL)
DEFINE_STREAM_WAIT(hipStreamWaitEvent_spt, PER_THREAD)

// What writes the value is not known.
HIP(hipStreamWaitValue32, (hip_stream stream, void *address, uint32_t value, unsigned flags, uint32_t mask)) {
  FORWARD_UNLESS_CHECKED(hipStreamWaitValue32, stream, address, value, flags, mask);
  hip_error error = REAL(hipStreamWaitValue32)(stream, address, value, flags, mask);
  drv_order_stream_waits_for_all(stream, drv_hip_device());
  drv_hip_leave();
  return error;
}
HIP(hipStreamWaitValue64, (hip_stream stream, void *address, uint64_t value, unsigned flags, uint64_t mask)) {
  FORWARD_UNLESS_CHECKED(hipStreamWaitValue64, stream, address, value, flags, mask);
  hip_error error = REAL(hipStreamWaitValue64)(stream, address, value, flags, mask);
  drv_order_stream_waits_for_all(stream, drv_hip_device());
  drv_hip_leave();
  return error;
}

// ---- captures ----

#define DEFINE_CAPTURE(name)                                                   \
  HIP(name, (hip_stream stream, int mode)) {                                   \
    FORWARD_UNLESS_CHECKED(name, stream, mode);                                \
    hip_error error = REAL(name)(stream, mode);                                \
    if (error == HIP_SUCCESS) {                                                \
      __atomic_add_fetch(&captures, 1, __ATOMIC_RELAXED);                      \
      __atomic_add_fetch(&captures_now, 1, __ATOMIC_RELAXED);                  \
    }                                                                          \
    drv_hip_leave();                                                           \
    return error;                                                              \
  }
DEFINE_CAPTURE(hipStreamBeginCapture)
DEFINE_CAPTURE(hipStreamBeginCapture_spt)

#define DEFINE_END_OF_CAPTURE(name)                                            \
  HIP(name, (hip_stream stream, void **graph)) {                               \
    FORWARD_UNLESS_CHECKED(name, stream, graph);                               \
    int was_capturing = drv_hip_is_capturing(stream);                          \
    hip_error error = REAL(name)(stream, graph);                               \
    if (was_capturing) __atomic_sub_fetch(&captures_now, 1, __ATOMIC_RELAXED); \
    drv_hip_leave();                                                           \
    return error;                                                              \
  }
DEFINE_END_OF_CAPTURE(hipStreamEndCapture)
DEFINE_END_OF_CAPTURE(hipStreamEndCapture_spt)

// ---- functions of the host ----

struct callback {
  void (*function)(void *);
  void (*with_status)(hip_stream, hip_error, void *);
  void *data;
  struct drv_clock clock;
};

// The function may tell the host by any means that the stream came so far.
static void run_callback(void *data) {
  struct callback *c = data;
  struct callback copy = *c;
  free(c);
  drv_order_host_learns(&copy.clock);
  copy.function(copy.data);
}

static void run_callback_with_status(hip_stream stream, hip_error status, void *data) {
  struct callback *c = data;
  struct callback copy = *c;
  free(c);
  drv_order_host_learns(&copy.clock);
  copy.with_status(stream, status, copy.data);
}

static struct callback *callback_of(hip_stream stream, void *data) {
  struct callback *c = drv_hip_is_capturing(stream) ? NULL : calloc(1, sizeof *c);
  if (!c) return NULL;
  c->data = data;
  drv_order_clock_of(stream, drv_hip_device(), &c->clock);
  return c;
}

#define DEFINE_HOST_FUNCTION(name, default_stream)                                                                \
  HIP(name, (hip_stream stream, void (*function)(void *), void *data)) {                                          \
    FORWARD_UNLESS_CHECKED(name, stream, function, data);                                                         \
    struct callback *c = function ? callback_of(stream ? stream : (default_stream), data) : NULL;                 \
    if (c) c->function = function;                                                                                \
    hip_error error = c ? REAL(name)(stream, run_callback, c) : REAL(name)(stream, function, data);               \
    drv_hip_leave();                                                                                              \
    return error;                                                                                                 \
  }
DEFINE_HOST_FUNCTION(hipLaunchHostFunc, NULL)
DEFINE_HOST_FUNCTION(hipLaunchHostFunc_spt, PER_THREAD)

#define DEFINE_CALLBACK(name, default_stream)                                                                     \
  HIP(name, (hip_stream stream, void (*function)(hip_stream, hip_error, void *), void *data, unsigned flags)) {   \
    FORWARD_UNLESS_CHECKED(name, stream, function, data, flags);                                                  \
    struct callback *c = function ? callback_of(stream ? stream : (default_stream), data) : NULL;                 \
    if (c) c->with_status = function;                                                                             \
    hip_error error = c ? REAL(name)(stream, run_callback_with_status, c, flags) : REAL(name)(stream, function, data, flags); \
    drv_hip_leave();                                                                                              \
    return error;                                                                                                 \
  }
DEFINE_CALLBACK(hipStreamAddCallback, NULL)
DEFINE_CALLBACK(hipStreamAddCallback_spt, PER_THREAD)
