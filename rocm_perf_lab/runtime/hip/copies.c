// Copies and fills by the copy engine (SDMA 4.x as the emulated driver executes it), ordered with the kernels of their stream by signals.
#define _GNU_SOURCE
#include <string.h>

#include "core.h"

enum operation { COPY = 1, FENCE = 5, TRAP = 6, POLL = 8, ATOMIC = 10, FILL = 11, TIMESTAMP = 13 };
enum {
  WORD = 4, LINEAR_WORDS = 7, WINDOW_WORDS = 13, FILL_WORDS = 5, KIND_SHIFT = 8, SUB_WINDOW = 4, OVERHEAD_BYTES = 256,
  POLL_EQUAL = 3, POLL_FUNCTION_SHIFT = 28, ATOMIC_ADD = 0x2f, ATOMIC_SHIFT = 25, LONG_FENCE = 2, UNIT_SHIFT = 30, ELEMENT_SHIFT = 29,
  SMALL_BYTES = 32 << 10, MOST_ROWS = 4096
};
#define LINEAR_MOST UINT64_C(0x3fffffe0)  // bytes of one packet
#define POLL_MEMORY UINT32_C(0x80000000)
static const uint64_t WINDOW_WIDTH = 1 << 14, WINDOW_HEIGHT = 1 << 14, WINDOW_DEPTH = 1 << 11, WINDOW_PITCH = 1 << 19, WINDOW_SLICE = 1 << 28;

static uint32_t low(uint64_t value) { return (uint32_t)value; }
static uint32_t high(uint64_t value) { return (uint32_t)(value >> 32); }

// ---- order ----

// Lets the copy engine wait for the earlier work of the stream, and records when the copies begin.
static struct hip_signal *begin(struct ihipStream_t *stream) {
  struct hip_queue *queue = stream->queue;
  hip_stream_implicit_waits(stream);
  struct hip_signal *before = hip_stream_marker_locked(stream), *done = hip_signal_create(1);
  if (!done) return NULL;
  if (before) {
    hip_signal_hold(before);
    uint64_t at = (uint64_t)&before->value;
    hip_sdma_write(queue, (uint32_t[]){POLL | POLL_EQUAL << POLL_FUNCTION_SHIFT | POLL_MEMORY, low(at), high(at), 0, UINT32_MAX, 0}, 6);
    hip_sdma_keep(queue, HIP_PENDING_DEPENDENCY, (uint64_t)before);
  }
  uint64_t start = (uint64_t)&done->start_ticks;
  hip_sdma_write(queue, (uint32_t[]){TIMESTAMP, low(start), high(start)}, 3);
  return done;
}

// Completes `done` after the copies and lets later packets of the stream wait for it. Takes the reference.
static void end(struct ihipStream_t *stream, struct hip_signal *done) {
  struct hip_queue *queue = stream->queue;
  uint64_t ticks = (uint64_t)&done->end_ticks, value = (uint64_t)&done->value;
  hip_sdma_write(queue, (uint32_t[]){TIMESTAMP, low(ticks), high(ticks)}, 3);
  hip_signal_hold(done);
  hip_sdma_write(queue, (uint32_t[]){ATOMIC | (uint32_t)ATOMIC_ADD << ATOMIC_SHIFT, low(value), high(value), UINT32_MAX, UINT32_MAX, 0, 0, 0}, 8);
  hip_sdma_write(queue, (uint32_t[]){FENCE, low(done->event_mailbox), high(done->event_mailbox), done->event_id}, 4);
  hip_sdma_write(queue, (uint32_t[]){TRAP, done->event_id}, 2);
  hip_sdma_keep(queue, HIP_PENDING_COMPLETION, (uint64_t)done);
  struct hip_signal *passed = hip_signal_create(1);
  hip_queue_barrier(queue, &done, 1, passed);
  if (passed) hip_stream_set_last(stream, passed);
  hip_signal_release(done);
}

static hipError_t lock_with_engine(struct ihipStream_t *stream, uint64_t sdma_bytes) {
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 3, sdma_bytes + OVERHEAD_BYTES);
  hipError_t error = hip_queue_open_sdma(stream->queue);
  if (error != hipSuccess) hip_stream_unlock();
  return error;
}

// ---- packets ----

static void copy_linear(struct hip_queue *queue, uint64_t to, uint64_t from, uint64_t bytes) {
  for (uint64_t part; bytes; bytes -= part, to += part, from += part) {
    part = bytes < LINEAR_MOST ? bytes : LINEAR_MOST;
    hip_sdma_write(queue, (uint32_t[]){COPY, (uint32_t)(part - 1), 0, low(from), high(from), low(to), high(to)}, LINEAR_WORDS);
  }
}

// log2 of the largest element (up to 16 bytes) that divides all of the geometry.
static uint32_t element_shift(const struct hip_copy *copy) {
  uint64_t all = copy->to.address | copy->to.pitch | copy->to.slice | copy->from.address | copy->from.pitch | copy->from.slice | copy->width;
  uint32_t shift = 0;
  while (shift < 4 && !(all >> shift & 1)) shift++;
  return shift;
}

static int fits_window(const struct hip_copy *copy, uint32_t shift) {
  return copy->to.pitch >> shift <= WINDOW_PITCH && copy->from.pitch >> shift <= WINDOW_PITCH && copy->to.slice >> shift <= WINDOW_SLICE &&
         copy->from.slice >> shift <= WINDOW_SLICE && copy->to.pitch && copy->from.pitch;
}

static uint32_t pitch_word(const struct hip_box *box, uint32_t shift) { return (uint32_t)((box->pitch >> shift) - 1) << 13; }
static uint32_t slice_word(const struct hip_box *box, uint32_t shift) { return box->slice >> shift ? (uint32_t)((box->slice >> shift) - 1) : 0; }

static void copy_window(struct hip_queue *queue, const struct hip_copy *copy, uint32_t shift) {
  uint32_t width = (uint32_t)(copy->width >> shift), height = (uint32_t)copy->height, depth = (uint32_t)copy->depth;
  uint32_t words[WINDOW_WORDS] = {COPY | (uint32_t)SUB_WINDOW << KIND_SHIFT | shift << ELEMENT_SHIFT,
                                  low(copy->from.address), high(copy->from.address), 0, pitch_word(&copy->from, shift), slice_word(&copy->from, shift),
                                  low(copy->to.address), high(copy->to.address), 0, pitch_word(&copy->to, shift), slice_word(&copy->to, shift),
                                  (width - 1) | (height - 1) << 16, depth - 1};
  hip_sdma_write(queue, words, WINDOW_WORDS);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

// One part of a copy that fits one packet, at (x, y, z).
static struct hip_copy part_of(const struct hip_copy *copy, uint64_t x, uint64_t y, uint64_t z, uint32_t shift) {
  struct hip_copy part = *copy;
  uint64_t to = x + y * copy->to.pitch + z * copy->to.slice, from = x + y * copy->from.pitch + z * copy->from.slice;
  part.to.address += to;
  part.from.address += from;
  part.width = smaller(copy->width - x, WINDOW_WIDTH << shift);
  part.height = smaller(copy->height - y, WINDOW_HEIGHT);
  part.depth = smaller(copy->depth - z, WINDOW_DEPTH);
  return part;
}

static hipError_t copy_box(struct ihipStream_t *stream, const struct hip_copy *copy) {
  uint32_t shift = element_shift(copy);
  uint64_t step_x = WINDOW_WIDTH << shift, packets = 0;
  for (uint64_t z = 0; z < copy->depth; z += WINDOW_DEPTH)
    for (uint64_t y = 0; y < copy->height; y += WINDOW_HEIGHT)
      for (uint64_t x = 0; x < copy->width; x += step_x, packets++) {
        struct hip_copy part = part_of(copy, x, y, z, shift);
        HIP_TRY(lock_with_engine(stream, WINDOW_WORDS * WORD));
        struct hip_signal *done = begin(stream);
        if (done) {
          copy_window(stream->queue, &part, shift);
          end(stream, done);
        }
        hip_stream_unlock();
        if (!done) return hipErrorOutOfMemory;
      }
  return hipSuccess;
}

// Row by row, for pitches that packets cannot hold.
static hipError_t copy_rows(struct ihipStream_t *stream, const struct hip_copy *copy) {
  for (uint64_t z = 0; z < copy->depth; z++)
    for (uint64_t first = 0; first < copy->height; first += MOST_ROWS) {
      uint64_t last = smaller(copy->height, first + MOST_ROWS);
      uint64_t packets = (last - first) * (copy->width / LINEAR_MOST + 1);
      HIP_TRY(lock_with_engine(stream, packets * LINEAR_WORDS * WORD));
      struct hip_signal *done = begin(stream);
      if (!done) {
        hip_stream_unlock();
        return hipErrorOutOfMemory;
      }
      for (uint64_t y = first; y < last; y++)
        copy_linear(stream->queue, copy->to.address + z * copy->to.slice + y * copy->to.pitch,
                    copy->from.address + z * copy->from.slice + y * copy->from.pitch, copy->width);
      end(stream, done);
      hip_stream_unlock();
    }
  return hipSuccess;
}

// ---- pageable memory ----

static uint64_t extent(const struct hip_box *box, const struct hip_copy *copy) {
  return (copy->depth - 1) * box->slice + (copy->height - 1) * box->pitch + copy->width;
}

// Pins memory that the GPUs do not know until the copies that follow are done.
static hipError_t pin(struct ihipStream_t *stream, const struct hip_box *box, const struct hip_copy *copy, uint64_t *handle) {
  (void)stream;
  *handle = 0;
  if (hip_memory_find((const void *)box->address, NULL)) return hipSuccess;
  return hip_pin((const void *)box->address, extent(box, copy), handle) ? hipErrorInvalidValue : hipSuccess;
}

static void unpin_later(struct ihipStream_t *stream, uint64_t handle) {
  if (!handle) return;
  pthread_mutex_lock(&hip_streams_lock);
  hip_sdma_keep(stream->queue, HIP_PENDING_PIN, handle);
  pthread_mutex_unlock(&hip_streams_lock);
}

int hip_copy_is_pageable(const struct hip_copy *copy) {
  return !hip_memory_find((const void *)copy->to.address, NULL) || !hip_memory_find((const void *)copy->from.address, NULL);
}

// ---- operations ----

// Rows and planes that follow each other are one row.
static struct hip_copy simplified(const struct hip_copy *copy) {
  struct hip_copy simple = *copy;
  if (simple.height > 1 && simple.to.pitch == simple.width && simple.from.pitch == simple.width &&
      (simple.depth == 1 || (simple.to.slice == simple.width * simple.height && simple.from.slice == simple.to.slice))) {
    simple.width *= simple.height * simple.depth;
    simple.height = simple.depth = 1;
  }
  return simple;
}

static void copy_by_host(const struct hip_copy *copy) {
  for (uint64_t z = 0; z < copy->depth; z++)
    for (uint64_t y = 0; y < copy->height; y++)
      memmove((void *)(copy->to.address + z * copy->to.slice + y * copy->to.pitch),
              (const void *)(copy->from.address + z * copy->from.slice + y * copy->from.pitch), copy->width);
}

hipError_t hip_execute_copy_direct(struct ihipStream_t *stream, const struct hip_copy *copy) {
  if (copy->height == 1 && copy->depth == 1) return copy_rows(stream, copy);
  uint32_t shift = element_shift(copy);
  return fits_window(copy, shift) ? copy_box(stream, copy) : copy_rows(stream, copy);
}

static hipError_t execute(struct ihipStream_t *stream, const struct hip_copy *copy) {
  return hip_copy_needs_stage(stream, copy) ? hip_copy_staged(stream, copy) : hip_execute_copy_direct(stream, copy);
}

hipError_t hip_execute_copy(struct ihipStream_t *stream, const struct hip_copy *original) {
  struct hip_copy copy = simplified(original);
  if (!copy.width || !copy.height || !copy.depth) return hipSuccess;
  int knows_to = hip_memory_find((const void *)copy.to.address, NULL), knows_from = hip_memory_find((const void *)copy.from.address, NULL);
  if (!knows_to && !knows_from) {  // both pageable: no work for a GPU
    HIP_TRY(hip_stream_synchronize(stream));
    copy_by_host(&copy);
    return hipSuccess;
  }
  uint64_t pin_to, pin_from;
  HIP_TRY(pin(stream, &copy.to, &copy, &pin_to));
  hipError_t error = pin(stream, &copy.from, &copy, &pin_from);
  if (error == hipSuccess) error = execute(stream, &copy);
  unpin_later(stream, pin_to);
  if (error == hipSuccess) unpin_later(stream, pin_from);
  return error;
}

// Small copies of pageable memory go through memory of the runtime.
static hipError_t copy_small(struct ihipStream_t *stream, void *to, const void *from, uint64_t bytes, int is_from_host) {
  void *stage = hip_stage_take(bytes);
  if (!stage) return hipErrorOutOfMemory;
  if (is_from_host) memcpy(stage, from, bytes);
  struct hip_copy copy = {.to = {is_from_host ? (uint64_t)to : (uint64_t)stage, bytes, bytes},
                          .from = {is_from_host ? (uint64_t)stage : (uint64_t)from, bytes, bytes}, .width = bytes, .height = 1, .depth = 1};
  hipError_t error = execute(stream, &copy);
  if (error == hipSuccess) error = hip_stream_synchronize(stream);
  if (error == hipSuccess && !is_from_host) memcpy(to, stage, bytes);
  hip_stage_give_back(stage);
  return error;
}

hipError_t hip_copy_now(struct ihipStream_t *stream, void *to, const void *from, uint64_t bytes, hipMemcpyKind kind) {
  if (!bytes) return hipSuccess;
  int knows_to = hip_memory_find(to, NULL), knows_from = hip_memory_find(from, NULL);
  if (bytes <= SMALL_BYTES && knows_to != knows_from) return copy_small(stream, to, from, bytes, knows_to);
  struct hip_copy copy = {.to = {(uint64_t)to, bytes, bytes}, .from = {(uint64_t)from, bytes, bytes}, .width = bytes, .height = 1, .depth = 1,
                          .kind = kind};
  HIP_TRY(hip_execute_copy(stream, &copy));
  return hip_stream_synchronize(stream);
}

// ---- fills ----

static void fill_packet(struct hip_queue *queue, uint64_t to, uint64_t bytes, uint32_t value, uint32_t unit) {
  uint32_t shift = unit == 4 ? 2 : unit == 2 ? 1 : 0;
  for (uint64_t part; bytes; bytes -= part, to += part) {
    part = bytes < LINEAR_MOST ? bytes : LINEAR_MOST;
    hip_sdma_write(queue, (uint32_t[]){FILL | shift << UNIT_SHIFT, low(to), high(to), value, (uint32_t)(part - unit)}, FILL_WORDS);
  }
}

// Bytes are filled as words except for those at both ends.
static void fill_row(struct hip_queue *queue, uint64_t to, uint64_t bytes, uint32_t value, uint32_t unit) {
  if (unit != 1) {
    fill_packet(queue, to, bytes, value, unit);
    return;
  }
  uint64_t head = smaller((WORD - to % WORD) % WORD, bytes), words = (bytes - head) / WORD * WORD;
  uint32_t byte = value & 0xff;
  fill_packet(queue, to, head, byte, 1);
  fill_packet(queue, to + head, words, byte * 0x01010101u, WORD);
  fill_packet(queue, to + head + words, bytes - head - words, byte, 1);
}

hipError_t hip_execute_fill(struct ihipStream_t *stream, const struct hip_fill *original) {
  enum { PACKETS_PER_ROW = 3 };
  struct hip_fill fill = *original;
  if (!hip_memory_is_accessible(stream->device, fill.to.address)) return hip_fill_remote(stream, original);
  if (fill.height * fill.depth > 1 && fill.to.pitch == fill.width && (fill.depth == 1 || fill.to.slice == fill.width * fill.height)) {
    fill.width *= fill.height * fill.depth;
    fill.height = fill.depth = 1;
  }
  for (uint64_t z = 0; fill.width && z < fill.depth; z++)
    for (uint64_t first = 0; first < fill.height; first += MOST_ROWS / PACKETS_PER_ROW) {
      uint64_t last = smaller(fill.height, first + MOST_ROWS / PACKETS_PER_ROW);
      uint64_t packets = (last - first) * (fill.width / LINEAR_MOST + PACKETS_PER_ROW);
      HIP_TRY(lock_with_engine(stream, packets * FILL_WORDS * WORD));
      struct hip_signal *done = begin(stream);
      for (uint64_t y = first; done && y < last; y++)
        fill_row(stream->queue, fill.to.address + z * fill.to.slice + y * fill.to.pitch, fill.width, fill.value, fill.unit);
      if (done) end(stream, done);
      hip_stream_unlock();
      if (!done) return hipErrorOutOfMemory;
    }
  return hipSuccess;
}

hipError_t hip_fill_now(struct ihipStream_t *stream, void *to, uint32_t value, uint32_t unit, uint64_t bytes) {
  struct hip_fill fill = {.to = {(uint64_t)to, bytes, bytes}, .width = bytes, .height = 1, .depth = 1, .value = value, .unit = unit};
  HIP_TRY(hip_execute_fill(stream, &fill));
  return hip_stream_synchronize(stream);
}

hipError_t hip_execute_write(struct ihipStream_t *stream, const struct hip_value *value) {
  enum { SHORT_WORDS = 4, LONG_WORDS = 5 };
  int is_long = value->bytes == sizeof(uint64_t);
  HIP_TRY(lock_with_engine(stream, LONG_WORDS * WORD));
  struct hip_signal *done = begin(stream);
  if (done) {
    uint32_t head = FENCE | (is_long ? (uint32_t)LONG_FENCE << KIND_SHIFT : 0);
    hip_sdma_write(stream->queue, (uint32_t[]){head, low(value->address), high(value->address), low(value->value), high(value->value)},
                   is_long ? LONG_WORDS : SHORT_WORDS);
    end(stream, done);
  }
  hip_stream_unlock();
  return done ? hipSuccess : hipErrorOutOfMemory;
}
