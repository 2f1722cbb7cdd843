// Execution of operations: kernels are packets of the stream's compute queue, copies and fills of its copy queue.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"

enum { VENDOR = 0, BARRIER_VALUE = 2, BARRIER_VALUE_HEADER_SHIFT = 0, NOT_EQUAL = 1, EQUAL = 0, GREATER_EQUAL = 3 };
struct value_packet {             // hsa_amd_barrier_value_packet_t
  uint16_t header;
  uint8_t format, reserved0;
  uint32_t reserved1;
  uint64_t signal;
  int64_t value, mask;
  uint32_t condition, reserved2;
  uint64_t reserved3[2], completion;
};

// ---- values in memory ----

struct test { uint64_t mask, value; uint32_t condition; };

static struct test test_of(const struct hip_value *value) {
  uint64_t mask = value->mask & (value->bytes == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX);
  switch (value->condition) {
    case hipStreamWaitValueEq: return (struct test){mask, value->value, EQUAL};
    case hipStreamWaitValueAnd: return (struct test){mask & value->value, 0, NOT_EQUAL};
    case hipStreamWaitValueNor: return (struct test){mask & ~value->value, mask & ~value->value, NOT_EQUAL};
    default: return (struct test){mask, value->value, GREATER_EQUAL};
  }
}

static int holds(const struct test *test, uint64_t content) {
  content &= test->mask;
  return test->condition == EQUAL ? content == test->value : test->condition == NOT_EQUAL ? content != test->value : content >= test->value;
}

struct polled { struct hip_value value; struct test test; };

static void poll(void *data) {
  enum { PAUSE_NS = 50000 };
  struct polled *polled = data;
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  for (;;) {
    uint64_t content = polled->value.bytes == sizeof(uint32_t) ? __atomic_load_n((const uint32_t *)polled->value.address, __ATOMIC_ACQUIRE)
                                                               : __atomic_load_n((const uint64_t *)polled->value.address, __ATOMIC_ACQUIRE);
    if (holds(&polled->test, content)) break;
    nanosleep(&pause, NULL);
  }
  free(polled);
}

// The packet processor compares 64-bit words of signals; a word near the end of a page, or of 32 bits, is polled by the host.
static int fits_packet(const struct hip_value *value) {
  return value->bytes == sizeof(uint64_t) && value->address % HIP_PAGE_BYTES + sizeof(struct hip_signal) <= HIP_PAGE_BYTES;
}

static hipError_t wait_value(struct ihipStream_t *stream, const struct hip_value *value) {
  struct test test = test_of(value);
  if (!fits_packet(value)) {
    struct polled *polled = malloc(sizeof *polled);
    if (!polled) return hipErrorOutOfMemory;
    *polled = (struct polled){*value, test};
    return hip_stream_callback(stream, poll, polled);
  }
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 1, 0);
  hip_stream_implicit_waits(stream);
  struct value_packet *packet = hip_queue_packet(stream->queue);
  packet->signal = value->address - offsetof(struct hip_signal, value);
  packet->value = (int64_t)test.value;
  packet->mask = (int64_t)test.mask;
  packet->condition = test.condition;
  hip_queue_submit(stream->queue, VENDOR, BARRIER_VALUE);  // the format is the third byte
  hip_stream_submitted(stream);
  hip_stream_unlock();
  return hipSuccess;
}

// ---- all kinds ----

static hipError_t execute_empty(struct ihipStream_t *stream) {
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 1, 0);
  hip_stream_implicit_waits(stream);
  hip_queue_barrier(stream->queue, NULL, 0, NULL);
  hip_stream_submitted(stream);
  hip_stream_unlock();
  return hipSuccess;
}

hipError_t hip_execute(struct ihipStream_t *stream, const struct hip_operation *operation) {
  switch (operation->kind) {
    case HIP_OPERATION_KERNEL: return hip_execute_kernel(stream, &operation->kernel);
    case HIP_OPERATION_COPY: return hip_execute_copy(stream, &operation->copy);
    case HIP_OPERATION_FILL: return hip_execute_fill(stream, &operation->fill);
    case HIP_OPERATION_HOST: return hip_stream_callback(stream, operation->host.run, operation->host.data);
    case HIP_OPERATION_RECORD: return hip_event_record(operation->event.event, stream);
    case HIP_OPERATION_WAIT: return hip_event_wait_stream(operation->event.event, stream);
    case HIP_OPERATION_WAIT_VALUE: return wait_value(stream, &operation->value);
    case HIP_OPERATION_WRITE_VALUE: return hip_execute_write(stream, &operation->value);
    case HIP_OPERATION_ALLOCATE: case HIP_OPERATION_EMPTY: return execute_empty(stream);
    case HIP_OPERATION_FREE: return hip_pool_execute_free(stream, &operation->memory);
    default: return hipErrorInvalidValue;
  }
}

hipError_t hip_enqueue(struct ihipStream_t *stream, const struct hip_operation *operation) {
  if (__atomic_load_n(&stream->capture, __ATOMIC_ACQUIRE)) return hip_capture_add(stream, operation);
  return hip_execute(stream, operation);
}
