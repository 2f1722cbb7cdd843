// Functions of the host in streams: a thread per stream that uses them waits for earlier work, calls the function, and lets later work begin.
#define _GNU_SOURCE
#include <stdlib.h>

#include "core.h"

struct call {
  struct call *next;
  struct hip_signal *before, *after;  // before NULL: nothing was pending
  void (*run)(void *data);
  void *data;
};
struct hip_callbacks {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct call *first, **last;
  int is_ending;
};

static struct call *next_call(struct hip_callbacks *callbacks) {
  pthread_mutex_lock(&callbacks->lock);
  while (!callbacks->first && !callbacks->is_ending) pthread_cond_wait(&callbacks->changed, &callbacks->lock);
  struct call *call = callbacks->first;
  if (call) {
    callbacks->first = call->next;
    if (!callbacks->first) callbacks->last = &callbacks->first;
  }
  pthread_mutex_unlock(&callbacks->lock);
  return call;
}

static void *serve(void *argument) {
  struct hip_callbacks *callbacks = argument;
  for (struct call *call; (call = next_call(callbacks));) {
    if (call->before) hip_signal_wait(call->before);
    call->run(call->data);
    hip_signal_store(call->after, 0);
    hip_signal_release(call->before);
    hip_signal_release(call->after);
    free(call);
  }
  return NULL;
}

static struct hip_callbacks *callbacks_of(struct ihipStream_t *stream) {
  if (stream->callbacks) return stream->callbacks;
  struct hip_callbacks *callbacks = calloc(1, sizeof *callbacks);
  if (!callbacks) return NULL;
  pthread_mutex_init(&callbacks->lock, NULL);
  pthread_cond_init(&callbacks->changed, NULL);
  callbacks->last = &callbacks->first;
  if (hip_thread_create(serve, callbacks, &callbacks->thread)) {
    free(callbacks);
    return NULL;
  }
  stream->callbacks = callbacks;
  return callbacks;
}

hipError_t hip_stream_callback(struct ihipStream_t *stream, void (*run)(void *data), void *data) {
  struct call *call = calloc(1, sizeof *call);
  struct hip_signal *after = hip_signal_create(1), *done = hip_signal_create(1);
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 2, 0);
  struct hip_callbacks *callbacks = callbacks_of(stream);
  if (!call || !after || !done || !callbacks) {
    hip_stream_unlock();
    free(call);
    return hipErrorOutOfMemory;
  }
  hip_stream_implicit_waits(stream);
  struct hip_signal *before = hip_stream_marker_locked(stream);
  if (before) hip_signal_hold(before);
  *call = (struct call){NULL, before, after, run, data};
  hip_queue_barrier(stream->queue, &after, 1, done);
  hip_stream_set_last(stream, done);
  pthread_mutex_lock(&callbacks->lock);
  *callbacks->last = call;
  callbacks->last = &call->next;
  pthread_cond_signal(&callbacks->changed);
  pthread_mutex_unlock(&callbacks->lock);
  hip_stream_unlock();
  return hipSuccess;
}

void hip_callbacks_end(struct ihipStream_t *stream) {
  struct hip_callbacks *callbacks = stream->callbacks;
  if (!callbacks) return;
  pthread_mutex_lock(&callbacks->lock);
  callbacks->is_ending = 1;
  pthread_cond_signal(&callbacks->changed);
  pthread_mutex_unlock(&callbacks->lock);
  if (pthread_equal(callbacks->thread, pthread_self())) pthread_detach(callbacks->thread);  // a callback that destroys its stream
  else pthread_join(callbacks->thread, NULL);
  free(callbacks);
  stream->callbacks = NULL;
}
