// Streams: their handles, the rules of the null stream, and waiting for them.
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "core.h"

enum { PAUSE_NS = 20000, MOST_DEPENDENCIES = 5 };
pthread_mutex_t hip_streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ihipStream_t *streams;
static uint64_t next_id = 1;
static _Thread_local struct { unsigned generation; struct ihipStream_t *streams[HIP_MAX_DEVICES]; } own;

// ---- handles ----

static hipError_t create_locked(struct hip_device *device, unsigned flags, int priority, struct ihipStream_t **result) {
  struct ihipStream_t *stream = calloc(1, sizeof *stream);
  if (!stream) return hipErrorOutOfMemory;
  hipError_t error = hip_queue_take(device, &stream->queue);
  if (error != hipSuccess) {
    free(stream);
    return error;
  }
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = next_id++;
  stream->next = streams;
  streams = stream;
  *result = stream;
  return hipSuccess;
}

hipError_t hip_stream_create(struct hip_device *device, unsigned flags, int priority, struct ihipStream_t **stream) {
  pthread_mutex_lock(&hip_streams_lock);
  hipError_t error = create_locked(device, flags, priority, stream);
  pthread_mutex_unlock(&hip_streams_lock);
  return error;
}

static hipError_t null_stream(struct hip_device *device, struct ihipStream_t **stream) {
  hipError_t error = hipSuccess;
  *stream = __atomic_load_n(&device->null_stream, __ATOMIC_ACQUIRE);
  if (*stream) return hipSuccess;
  pthread_mutex_lock(&hip_streams_lock);
  if (!device->null_stream) {
    error = create_locked(device, 0, 0, stream);
    if (error == hipSuccess) {
      (*stream)->is_null = 1;
      __atomic_store_n(&device->null_stream, *stream, __ATOMIC_RELEASE);
    }
  }
  *stream = device->null_stream;
  pthread_mutex_unlock(&hip_streams_lock);
  return error;
}

static hipError_t thread_stream(struct hip_device *device, struct ihipStream_t **stream) {
  unsigned generation = atomic_load(&hip_generation);
  if (own.generation != generation) {
    for (int i = 0; i < HIP_MAX_DEVICES; i++) own.streams[i] = NULL;
    own.generation = generation;
  }
  struct ihipStream_t **place = &own.streams[device->index];
  if (!*place) {
    HIP_TRY(hip_stream_create(device, 0, 0, place));
    (*place)->is_per_thread = 1;
  }
  *stream = *place;
  return hipSuccess;
}

hipError_t hip_stream_of(hipStream_t handle, struct ihipStream_t **stream) {
  if (!handle || handle == hipStreamLegacy) return null_stream(hip_current_device(), stream);
  if (handle == hipStreamPerThread) return thread_stream(hip_current_device(), stream);
  pthread_mutex_lock(&hip_streams_lock);
  struct ihipStream_t *found = streams;
  while (found && found != handle) found = found->next;
  pthread_mutex_unlock(&hip_streams_lock);
  *stream = found;
  return found ? hipSuccess : hipErrorContextIsDestroyed;
}

hipError_t hip_stream_destroy(struct ihipStream_t *stream) {
  HIP_TRY(hip_stream_synchronize(stream));
  hip_callbacks_end(stream);
  pthread_mutex_lock(&hip_streams_lock);
  struct ihipStream_t **at = &streams;
  while (*at && *at != stream) at = &(*at)->next;
  if (*at) *at = stream->next;
  hip_queue_give_back(stream->queue);
  pthread_mutex_unlock(&hip_streams_lock);
  hip_signal_release(stream->last);
  free(stream);
  return hipSuccess;
}

// ---- submission ----

hipError_t hip_stream_lock_for(struct ihipStream_t *stream, uint32_t packets, uint64_t sdma_bytes) {
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  pthread_mutex_lock(&hip_streams_lock);
  while (!hip_queue_has_room(stream->queue, packets, sdma_bytes)) {
    pthread_mutex_unlock(&hip_streams_lock);
    hip_ring_driver();
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&hip_streams_lock);
  }
  return hipSuccess;
}

void hip_stream_unlock(void) {
  pthread_mutex_unlock(&hip_streams_lock);
  hip_ring_driver();
}

void hip_stream_submitted(struct ihipStream_t *stream) { stream->is_dirty = 1; }

void hip_stream_set_last(struct ihipStream_t *stream, struct hip_signal *signal) {
  hip_signal_release(stream->last);
  stream->last = signal;
  stream->is_dirty = 0;
}

struct hip_signal *hip_stream_marker_locked(struct ihipStream_t *stream) {
  if (stream->is_dirty) {
    struct hip_signal *signal = hip_signal_create(1);
    if (!signal) return NULL;
    hip_queue_barrier(stream->queue, NULL, 0, signal);
    hip_stream_set_last(stream, signal);
  }
  if (stream->last && hip_signal_load(stream->last) <= 0) {
    hip_signal_release(stream->last);
    stream->last = NULL;
  }
  return stream->last;
}

static void wait_locked(struct ihipStream_t *stream, struct hip_signal *const *signals, int count) {
  if (!count) return;
  hip_queue_barrier(stream->queue, signals, count, NULL);
  hip_stream_submitted(stream);
}

void hip_stream_implicit_waits(struct ihipStream_t *stream) {
  if (stream->flags & hipStreamNonBlocking) return;
  struct hip_signal *signals[MOST_DEPENDENCIES];
  int count = 0;
  if (!stream->is_null) {
    struct ihipStream_t *null = stream->device->null_stream;
    signals[0] = null && (null->is_dirty || null->last) ? hip_stream_marker_locked(null) : NULL;
    wait_locked(stream, signals, signals[0] != NULL);
    return;
  }
  for (struct ihipStream_t *other = streams; other; other = other->next) {
    if (other == stream || other->device != stream->device || other->flags & hipStreamNonBlocking) continue;
    if (!other->is_dirty && !other->last) continue;
    signals[count] = hip_stream_marker_locked(other);
    count += signals[count] != NULL;
    if (count == MOST_DEPENDENCIES) {
      wait_locked(stream, signals, count);
      count = 0;
    }
  }
  wait_locked(stream, signals, count);
}

int hip_streams_count(void) {
  int count = 0;
  for (struct ihipStream_t *stream = streams; stream; stream = stream->next) count++;
  return count;
}

// ---- waiting ----

struct hip_signal *hip_stream_marker(struct ihipStream_t *stream) {
  hip_stream_lock_for(stream, 1, 0);
  struct hip_signal *signal = hip_stream_marker_locked(stream);
  if (signal) hip_signal_hold(signal);
  hip_stream_unlock();
  return signal;
}

static void wait_for_marker(struct ihipStream_t *stream) {
  struct hip_signal *signal = hip_stream_marker(stream);
  if (!signal) return;
  hip_signal_wait(signal);
  hip_signal_release(signal);
}

hipError_t hip_stream_synchronize(struct ihipStream_t *stream) {
  if (stream->is_null) {
    // Work of the null stream is complete when that of the blocking streams before it is.
    hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 1, 0);
    hip_stream_implicit_waits(stream);
    hip_stream_unlock();
  }
  wait_for_marker(stream);
  return hipSuccess;
}

hipError_t hip_stream_query(struct ihipStream_t *stream) {
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 1, 0);
  if (stream->is_null) hip_stream_implicit_waits(stream);
  struct hip_signal *signal = hip_stream_marker_locked(stream);
  hip_stream_unlock();
  return signal ? hipErrorNotReady : hipSuccess;
}

hipError_t hip_device_synchronize(struct hip_device *device) {
  // A stream may be destroyed by another thread meanwhile: markers are collected first.
  for (;;) {
    struct hip_signal *signal = NULL;
    pthread_mutex_lock(&hip_streams_lock);
    for (struct ihipStream_t *stream = streams; stream && !signal; stream = stream->next)
      if (stream->device == device) signal = hip_stream_marker_locked(stream);
    if (signal) hip_signal_hold(signal);
    hip_stream_unlock();
    if (!signal) return hipSuccess;
    hip_signal_wait(signal);
    hip_signal_release(signal);
  }
}

hipError_t hip_stream_wait_signal(struct ihipStream_t *stream, struct hip_signal *signal) {
  if (hip_signal_load(signal) <= 0) return hipSuccess;
  hip_stream_lock_for(stream, 1, 0);
  wait_locked(stream, &signal, 1);
  hip_stream_unlock();
  return hipSuccess;
}

void hip_streams_forget(void) {
  pthread_mutex_init(&hip_streams_lock, NULL);
  streams = NULL;
}
