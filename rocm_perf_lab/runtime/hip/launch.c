// Kernel dispatch packets.
#define _GNU_SOURCE
#include <string.h>

#include "core.h"

enum { DISPATCH = 2, DIMENSIONS = 3, AXES = 3 };
struct dispatch {                 // hsa_kernel_dispatch_packet_t
  uint16_t header, setup;
  uint16_t workgroup[AXES], reserved0;
  uint32_t grid[AXES];
  uint32_t private_bytes, group_bytes;
  uint64_t object, kernarg, reserved1, completion;
};

static void set_geometry(struct dispatch *packet, const struct hip_kernel_launch *launch) {
  for (int k = 0; k < AXES; k++) {
    packet->workgroup[k] = (uint16_t)launch->block[k];
    packet->grid[k] = launch->items[k] ? launch->items[k] : launch->grid[k] * launch->block[k];
  }
}

static hipError_t submit(struct ihipStream_t *stream, const struct hip_kernel_launch *launch, struct hip_signal *completion) {
  struct hip_queue *queue = stream->queue;
  const struct ihipModuleSymbol_t *function = launch->function;
  struct dispatch *packet = hip_queue_packet(queue);
  uint64_t bytes = launch->kernarg_bytes > function->kernarg_bytes ? launch->kernarg_bytes : function->kernarg_bytes;
  void *kernarg = hip_queue_kernarg(queue, bytes ? bytes : 1);
  if (!kernarg) return hipErrorOutOfMemory;
  if (launch->kernarg_bytes) memcpy(kernarg, launch->kernarg, launch->kernarg_bytes);
  memset((uint8_t *)kernarg + launch->kernarg_bytes, 0, bytes - launch->kernarg_bytes);
  hip_fill_hidden(launch, kernarg, (uint64_t)queue->amd, stream);
  set_geometry(packet, launch);
  packet->private_bytes = function->private_bytes;
  packet->group_bytes = function->static_lds_bytes + launch->dynamic_lds_bytes;
  packet->object = function->descriptor;
  packet->kernarg = (uint64_t)kernarg;
  packet->completion = (uint64_t)completion;
  hip_queue_submit(queue, DISPATCH, DIMENSIONS);
  if (completion) hip_queue_completes(queue, completion);
  return hipSuccess;
}

hipError_t hip_execute_kernel(struct ihipStream_t *stream, const struct hip_kernel_launch *launch) {
  struct hip_signal *completion = NULL;
  if (launch->start || launch->stop) {
    completion = hip_signal_create(1);
    if (!completion) return hipErrorOutOfMemory;
  }
  hip_stream_lock_for(stream, (uint32_t)hip_streams_count() + 1, 0);
  hip_stream_implicit_waits(stream);
  hipError_t error = submit(stream, launch, completion);
  if (error == hipSuccess) hip_stream_submitted(stream);
  hip_stream_unlock();
  if (error == hipSuccess && launch->start) hip_event_set_signal(launch->start, completion, stream, 1);
  if (error == hipSuccess && launch->stop) hip_event_set_signal(launch->stop, completion, stream, 0);
  hip_signal_release(completion);
  return error;
}
