// Copies between devices without peer access: through memory of the host, each half by the engine of the device that has the memory.
#define _GNU_SOURCE
#include "core.h"

enum { CHUNK_BYTES = 4 << 20 };
static struct ihipStream_t *helpers[HIP_MAX_DEVICES];  // a stream of each device that only such copies use
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int hip_copy_needs_stage(const struct ihipStream_t *stream, const struct hip_copy *copy) {
  return !hip_memory_is_accessible(stream->device, copy->to.address) || !hip_memory_is_accessible(stream->device, copy->from.address);
}

// The stream itself if its device can access the memory, else one of the device that has it.
static hipError_t stream_for(struct ihipStream_t *stream, uint64_t address, struct ihipStream_t **result) {
  struct hip_memory block;
  *result = stream;
  if (hip_memory_is_accessible(stream->device, address) || !hip_memory_find((const void *)address, &block)) return hipSuccess;
  hipError_t error = hipSuccess;
  pthread_mutex_lock(&lock);
  struct ihipStream_t **helper = &helpers[block.device->index];
  if (!*helper) error = hip_stream_create(block.device, hipStreamNonBlocking, 0, helper);
  *result = *helper;
  pthread_mutex_unlock(&lock);
  return error;
}

// Lets `stream` wait for what was submitted to `other` so far.
static hipError_t follow(struct ihipStream_t *stream, struct ihipStream_t *other) {
  struct hip_signal *signal = stream == other ? NULL : hip_stream_marker(other);
  if (!signal) return hipSuccess;
  hipError_t error = hip_stream_wait_signal(stream, signal);
  hip_signal_release(signal);
  return error;
}

struct hop { struct ihipStream_t *reader, *writer; };

static hipError_t copy_chunk(struct ihipStream_t *stream, const struct hop *hop, uint64_t to, uint64_t from, uint64_t bytes) {
  void *stage = hip_stage_take(bytes);
  if (!stage) return hipErrorOutOfMemory;
  struct hip_copy in = {.to = {(uint64_t)stage, bytes, bytes}, .from = {from, bytes, bytes}, .width = bytes, .height = 1, .depth = 1};
  struct hip_copy out = {.to = {to, bytes, bytes}, .from = {(uint64_t)stage, bytes, bytes}, .width = bytes, .height = 1, .depth = 1};
  HIP_TRY(follow(hop->reader, stream));
  HIP_TRY(hip_execute_copy_direct(hop->reader, &in));
  HIP_TRY(follow(hop->writer, hop->reader));
  HIP_TRY(hip_execute_copy_direct(hop->writer, &out));
  pthread_mutex_lock(&hip_streams_lock);
  hip_sdma_keep(hop->writer->queue, HIP_PENDING_STAGE, (uint64_t)stage);
  pthread_mutex_unlock(&hip_streams_lock);
  return follow(stream, hop->writer);
}

hipError_t hip_copy_staged(struct ihipStream_t *stream, const struct hip_copy *copy) {
  struct hop hop;
  HIP_TRY(stream_for(stream, copy->from.address, &hop.reader));
  HIP_TRY(stream_for(stream, copy->to.address, &hop.writer));
  for (uint64_t z = 0; z < copy->depth; z++)
    for (uint64_t y = 0; y < copy->height; y++)
      for (uint64_t x = 0; x < copy->width; x += CHUNK_BYTES) {
        uint64_t bytes = copy->width - x < CHUNK_BYTES ? copy->width - x : CHUNK_BYTES;
        HIP_TRY(copy_chunk(stream, &hop, copy->to.address + z * copy->to.slice + y * copy->to.pitch + x,
                           copy->from.address + z * copy->from.slice + y * copy->from.pitch + x, bytes));
      }
  return hipSuccess;
}

hipError_t hip_fill_remote(struct ihipStream_t *stream, const struct hip_fill *fill) {
  struct ihipStream_t *writer;
  HIP_TRY(stream_for(stream, fill->to.address, &writer));
  HIP_TRY(follow(writer, stream));
  HIP_TRY(hip_execute_fill(writer, fill));
  return follow(stream, writer);
}

void hip_peer_copies_forget(void) {
  pthread_mutex_init(&lock, NULL);
  for (int i = 0; i < HIP_MAX_DEVICES; i++) helpers[i] = NULL;
}
