// Exported functions of streams.
#define _GNU_SOURCE
#include <stdlib.h>

#include "core.h"

static hipError_t create(hipStream_t *result, unsigned flags, int priority) {
  enum { LEAST = 1, GREATEST = -1 };
  if (!result || (flags != hipStreamDefault && flags != hipStreamNonBlocking)) return hipErrorInvalidValue;
  priority = priority > LEAST ? LEAST : priority < GREATEST ? GREATEST : priority;
  return hip_stream_create(hip_current_device(), flags, priority, result);
}

HIP_API hipError_t hipStreamCreate(hipStream_t *stream) {
  HIP_ENTER();
  HIP_RETURN(create(stream, hipStreamDefault, 0));
}

HIP_API hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(create(stream, flags, 0));
}

HIP_API hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority) {
  HIP_ENTER();
  HIP_RETURN(create(stream, flags, priority));
}

HIP_API hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t size, const uint32_t *mask) {
  HIP_ENTER();
  if (!size || !mask) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(create(stream, hipStreamDefault, 0));  // the emulated GPU does not bind workgroups to compute units
}

HIP_API hipError_t hipStreamDestroy(hipStream_t handle) {
  HIP_ENTER();
  if (!handle || handle == hipStreamPerThread || handle == hipStreamLegacy) HIP_RETURN(hipErrorInvalidHandle);
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  HIP_RETURN(error == hipSuccess ? hip_stream_destroy(stream) : error);
}

static hipError_t forbidden(struct ihipStream_t *stream) { return hip_capture_forbids(stream); }

static hipError_t synchronize(hipStream_t handle) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  HIP_TRY(forbidden(stream));
  return hip_stream_synchronize(stream);
}

HIP_API hipError_t hipStreamSynchronize(hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(synchronize(stream));
}

HIP_API hipError_t hipStreamSynchronize_spt(hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(synchronize(stream ? stream : hipStreamPerThread));
}

static hipError_t query(hipStream_t handle) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  HIP_TRY(forbidden(stream));
  return hip_stream_query(stream);
}

HIP_API hipError_t hipStreamQuery(hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(query(stream));
}

HIP_API hipError_t hipStreamQuery_spt(hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(query(stream ? stream : hipStreamPerThread));
}

HIP_API hipError_t hipStreamGetFlags(hipStream_t handle, unsigned *flags) {
  HIP_ENTER();
  if (!handle || !flags) HIP_RETURN(hipErrorInvalidValue);
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error == hipSuccess) *flags = stream->flags;
  HIP_RETURN(error);
}

HIP_API hipError_t hipStreamGetFlags_spt(hipStream_t handle, unsigned *flags) {
  HIP_ENTER();
  struct ihipStream_t *stream;
  hipError_t error = flags ? hip_stream_of(handle ? handle : hipStreamPerThread, &stream) : hipErrorInvalidValue;
  if (error == hipSuccess) *flags = stream->flags;
  HIP_RETURN(error);
}

HIP_API hipError_t hipStreamGetPriority(hipStream_t handle, int *priority) {
  HIP_ENTER();
  if (!priority) HIP_RETURN(hipErrorInvalidValue);
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error == hipSuccess) *priority = stream->priority;
  HIP_RETURN(error);
}

HIP_API hipError_t hipStreamGetPriority_spt(hipStream_t handle, int *priority) {
  return hipStreamGetPriority(handle ? handle : hipStreamPerThread, priority);
}

HIP_API hipError_t hipStreamGetDevice(hipStream_t handle, hipDevice_t *device) {
  HIP_ENTER();
  if (!device) HIP_RETURN(hipErrorInvalidValue);
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error == hipSuccess) *device = stream->device->index;
  HIP_RETURN(error);
}

HIP_API hipError_t hipStreamGetId(hipStream_t handle, unsigned long long *id) {
  HIP_ENTER();
  if (!id) HIP_RETURN(hipErrorInvalidValue);
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error == hipSuccess) *id = stream->id;
  HIP_RETURN(error);
}

HIP_API int hipGetStreamDeviceId(hipStream_t handle) {
  struct ihipStream_t *stream;
  return hip_initialize() == hipSuccess && hip_stream_of(handle, &stream) == hipSuccess ? stream->device->index : -1;
}

// ---- values in memory ----

static hipError_t wait_value(hipStream_t handle, void *address, uint64_t value, unsigned condition, uint64_t mask, uint32_t bytes) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!address || condition > hipStreamWaitValueNor || !hip_memory_find(address, NULL)) return hipErrorInvalidValue;
  struct hip_operation operation = {.kind = HIP_OPERATION_WAIT_VALUE, .value = {(uint64_t)address, value, mask, bytes, condition}};
  return hip_enqueue(stream, &operation);
}

static hipError_t write_value(hipStream_t handle, void *address, uint64_t value, uint32_t bytes) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!address || !hip_memory_find(address, NULL)) return hipErrorInvalidValue;
  struct hip_operation operation = {.kind = HIP_OPERATION_WRITE_VALUE, .value = {(uint64_t)address, value, UINT64_MAX, bytes, 0}};
  return hip_enqueue(stream, &operation);
}

HIP_API hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned flags, uint32_t mask) {
  HIP_ENTER();
  HIP_RETURN(wait_value(stream, address, value, flags, mask, sizeof value));
}

HIP_API hipError_t hipStreamWaitValue64(hipStream_t stream, void *address, uint64_t value, unsigned flags, uint64_t mask) {
  HIP_ENTER();
  HIP_RETURN(wait_value(stream, address, value, flags, mask, sizeof value));
}

HIP_API hipError_t hipStreamWriteValue32(hipStream_t stream, void *address, uint32_t value, unsigned flags) {
  HIP_ENTER();
  (void)flags;
  HIP_RETURN(write_value(stream, address, value, sizeof value));
}

HIP_API hipError_t hipStreamWriteValue64(hipStream_t stream, void *address, uint64_t value, unsigned flags) {
  HIP_ENTER();
  (void)flags;
  HIP_RETURN(write_value(stream, address, value, sizeof value));
}
