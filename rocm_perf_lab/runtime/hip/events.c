// Events: each record is a packet that completes a new signal, whose time is that of the emulated GPU.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { KNOWN_FLAGS = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | hipEventReleaseToDevice |
                     (int)hipEventReleaseToSystem | hipEventDisableSystemFence };
// In memory that processes share: the signal of an event with hipEventInterprocess.
struct hip_event_share { struct hip_signal *signal; struct hip_memory memory; int is_imported; };

static struct ihipEvent_t *events;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ---- handles ----

hipError_t hip_event_of(hipEvent_t handle, struct ihipEvent_t **event) {
  pthread_mutex_lock(&lock);
  struct ihipEvent_t *found = events;
  while (found && found != handle) found = found->next;
  pthread_mutex_unlock(&lock);
  *event = found;
  return found ? hipSuccess : hipErrorInvalidHandle;
}

static struct ihipEvent_t *add(unsigned flags) {
  struct ihipEvent_t *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  event->device = hip_current_device();
  event->flags = flags;
  pthread_mutex_lock(&lock);
  event->next = events;
  events = event;
  pthread_mutex_unlock(&lock);
  return event;
}

static hipError_t make_shared(struct ihipEvent_t *event) {
  struct hip_event_share *share = calloc(1, sizeof *share);
  if (!share) return hipErrorOutOfMemory;
  hipError_t error = hip_memory_allocate(event->device, HIP_MEMORY_INTERNAL, HIP_PAGE_BYTES, 0, 0, &share->memory);
  if (error != hipSuccess) {
    free(share);
    return error;
  }
  share->signal = (struct hip_signal *)share->memory.address;
  atomic_store(&share->signal->references, 1);
  event->share = share;
  return hipSuccess;
}

static hipError_t create(hipEvent_t *result, unsigned flags) {
  if (!result || flags & ~(unsigned)KNOWN_FLAGS) return hipErrorInvalidValue;
  if (flags & hipEventInterprocess && !(flags & hipEventDisableTiming)) return hipErrorInvalidValue;
  struct ihipEvent_t *event = add(flags);
  if (!event) return hipErrorOutOfMemory;
  if (flags & hipEventInterprocess) HIP_TRY(make_shared(event));
  *result = event;
  return hipSuccess;
}

static hipError_t destroy(hipEvent_t handle) {
  struct ihipEvent_t *event;
  HIP_TRY(hip_event_of(handle, &event));
  pthread_mutex_lock(&lock);
  struct ihipEvent_t **at = &events;
  while (*at && *at != event) at = &(*at)->next;
  if (*at) *at = event->next;
  pthread_mutex_unlock(&lock);
  hip_signal_release(event->signal);
  if (event->share) {
    if (!event->share->is_imported) hip_signal_wait(event->share->signal);
    hip_memory_free(event->share->memory.address);
    free(event->share);
  }
  hip_capture_forget_event(event);
  free(event);
  return hipSuccess;
}

// ---- records ----

void hip_event_set_signal(struct ihipEvent_t *event, struct hip_signal *signal, struct ihipStream_t *stream, int times_start) {
  hip_signal_hold(signal);
  pthread_mutex_lock(&lock);
  struct hip_signal *before = event->signal;
  event->signal = signal;
  event->stream = stream;
  event->was_recorded = 1;
  event->times_kernel = times_start;
  pthread_mutex_unlock(&lock);
  hip_signal_release(before);
}

hipError_t hip_event_record(struct ihipEvent_t *event, struct ihipStream_t *stream) {
  struct hip_signal *signal = hip_signal_create(1);
  if (!signal) return hipErrorOutOfMemory;
  if (event->share) atomic_fetch_add(&event->share->signal->value, 1);
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 2, 0);
  hip_stream_implicit_waits(stream);
  if (event->share) hip_queue_barrier(stream->queue, NULL, 0, event->share->signal);
  hip_queue_barrier(stream->queue, NULL, 0, signal);
  hip_signal_hold(signal);
  hip_stream_set_last(stream, signal);
  hip_stream_unlock();
  hip_event_set_signal(event, signal, stream, 0);
  hip_signal_release(signal);
  return hipSuccess;
}

// The signal to wait for, with a reference; NULL: the event was not recorded.
static struct hip_signal *signal_of(struct ihipEvent_t *event) {
  if (event->share) {
    hip_signal_hold(event->share->signal);
    return event->share->signal;
  }
  pthread_mutex_lock(&lock);
  struct hip_signal *signal = event->signal;
  if (signal) hip_signal_hold(signal);
  pthread_mutex_unlock(&lock);
  return signal;
}

// Signals in shared memory do not belong to the pool of signals: their last reference is never released.
static void put(struct hip_signal *signal) { hip_signal_release(signal); }

hipError_t hip_event_wait_stream(struct ihipEvent_t *event, struct ihipStream_t *stream) {
  struct hip_signal *signal = signal_of(event);
  hipError_t error = signal ? hip_stream_wait_signal(stream, signal) : hipSuccess;
  if (signal) put(signal);
  return error;
}

hipError_t hip_event_wait_host(struct ihipEvent_t *event) {
  struct hip_signal *signal = signal_of(event);
  if (!signal) return hipSuccess;
  hip_signal_wait(signal);
  put(signal);
  return hipSuccess;
}

static int is_complete(struct ihipEvent_t *event) {
  struct hip_signal *signal = signal_of(event);
  int complete = !signal || hip_signal_load(signal) <= 0;
  if (signal) put(signal);
  return complete;
}

static uint64_t ticks_of(const struct ihipEvent_t *event) {
  return event->times_kernel ? event->signal->start_ticks : event->signal->end_ticks;
}

static hipError_t elapsed(float *milliseconds, hipEvent_t from, hipEvent_t to) {
  const double ns_per_ms = 1e6;
  struct ihipEvent_t *start, *stop;
  if (!milliseconds) return hipErrorInvalidValue;
  HIP_TRY(hip_event_of(from, &start));
  HIP_TRY(hip_event_of(to, &stop));
  if (!start->was_recorded || !stop->was_recorded || (start->flags | stop->flags) & hipEventDisableTiming) return hipErrorInvalidHandle;
  if (start->device != stop->device) return hipErrorInvalidHandle;
  if (!is_complete(start) || !is_complete(stop)) return hipErrorNotReady;
  *milliseconds = (float)((double)((int64_t)ticks_of(stop) - (int64_t)ticks_of(start)) * HIP_TICK_NS / ns_per_ms);
  return hipSuccess;
}

static hipError_t record(hipEvent_t handle, hipStream_t to, unsigned flags) {
  struct ihipEvent_t *event;
  struct ihipStream_t *stream;
  HIP_TRY(hip_event_of(handle, &event));
  if (flags > hipEventRecordExternal) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(to, &stream));
  if (stream->device != event->device && !stream->capture) return hipErrorInvalidHandle;
  if (!stream->capture && event->capture) hip_capture_forget_event(event);
  struct hip_operation operation = {.kind = HIP_OPERATION_RECORD, .event = {event, flags}};
  return hip_enqueue(stream, &operation);
}

static hipError_t wait(hipStream_t of, hipEvent_t handle, unsigned flags) {
  struct ihipEvent_t *event;
  struct ihipStream_t *stream;
  HIP_TRY(hip_event_of(handle, &event));
  if (flags > hipEventWaitExternal) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(of, &stream));
  struct hip_operation operation = {.kind = HIP_OPERATION_WAIT, .event = {event, flags}};
  // A wait for an event of a graph under construction makes the stream part of it.
  if (event->capture) return hip_capture_wait(stream, event);
  return hip_enqueue(stream, &operation);
}

// ---- exported ----

HIP_API hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(create(event, flags));
}

HIP_API hipError_t hipEventCreate(hipEvent_t *event) {
  HIP_ENTER();
  HIP_RETURN(create(event, 0));
}

HIP_API hipError_t hipEventDestroy(hipEvent_t event) {
  HIP_ENTER();
  HIP_RETURN(destroy(event));
}

HIP_API hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(record(event, stream, flags));
}

HIP_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(record(event, stream, 0));
}

HIP_API hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(record(event, stream ? stream : hipStreamPerThread, 0));
}

HIP_API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(wait(stream, event, flags));
}

HIP_API hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(wait(stream ? stream : hipStreamPerThread, event, flags));
}

HIP_API hipError_t hipEventSynchronize(hipEvent_t handle) {
  HIP_ENTER();
  struct ihipEvent_t *event;
  hipError_t error = hip_event_of(handle, &event);
  if (error == hipSuccess && event->capture) error = hipErrorCapturedEvent;
  HIP_RETURN(error == hipSuccess ? hip_event_wait_host(event) : error);
}

HIP_API hipError_t hipEventQuery(hipEvent_t handle) {
  HIP_ENTER();
  struct ihipEvent_t *event;
  hipError_t error = hip_event_of(handle, &event);
  if (error == hipSuccess && event->capture) error = hipErrorCapturedEvent;
  if (error != hipSuccess) HIP_RETURN(error);
  hip_ring_driver();
  HIP_RETURN(is_complete(event) ? hipSuccess : hipErrorNotReady);
}

HIP_API hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop) {
  HIP_ENTER();
  HIP_RETURN(elapsed(milliseconds, start, stop));
}

// ---- events of other processes ----

struct event_handle { uint32_t share[4], magic; };
enum { MAGIC = 0x52504c45 };
_Static_assert(sizeof(struct event_handle) <= sizeof(hipIpcEventHandle_t), "a handle holds the identity of a page");

HIP_API hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t of) {
  HIP_ENTER();
  struct ihipEvent_t *event;
  if (!handle) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = hip_event_of(of, &event);
  if (error == hipSuccess && !event->share) error = hipErrorInvalidConfiguration;
  if (error != hipSuccess) HIP_RETURN(error);
  struct event_handle content = {.magic = MAGIC};
  error = hip_memory_share(&event->share->memory, content.share);
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &content, sizeof content);
  HIP_RETURN(error);
}

static hipError_t open_shared(hipEvent_t *result, const struct event_handle *content) {
  struct hip_event_share *share = calloc(1, sizeof *share);
  if (!share) return hipErrorOutOfMemory;
  hipError_t error = hip_memory_open_shared(content->share, hip_current_device(), HIP_PAGE_BYTES, &share->memory);
  struct ihipEvent_t *event = error == hipSuccess ? add(hipEventInterprocess | hipEventDisableTiming) : NULL;
  if (!event) {
    free(share);
    return error == hipSuccess ? hipErrorOutOfMemory : error;
  }
  share->signal = (struct hip_signal *)share->memory.address;
  share->is_imported = 1;
  event->share = share;
  *result = event;
  return hipSuccess;
}

HIP_API hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle) {
  HIP_ENTER();
  struct event_handle content;
  memcpy(&content, &handle, sizeof content);
  if (!event || content.magic != MAGIC) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(open_shared(event, &content));
}

void hip_events_forget(void) {
  pthread_mutex_init(&lock, NULL);
  events = NULL;
}
