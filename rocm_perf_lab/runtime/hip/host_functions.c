// Functions of the host as work of a stream: hipLaunchHostFunc, hipStreamAddCallback.
#define _GNU_SOURCE
#include <stdlib.h>

#include "modules.h"

static hipError_t launch(hipStream_t handle, hipHostFn_t function, void *data) {
  struct ihipStream_t *stream;
  if (!function) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  struct hip_operation operation = {.kind = HIP_OPERATION_HOST, .host = {function, data}};
  return hip_enqueue(stream, &operation);
}

HIP_API hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data) {
  HIP_ENTER();
  HIP_RETURN(launch(stream, function, data));
}

HIP_API hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t function, void *data) {
  HIP_ENTER();
  HIP_RETURN(launch(stream ? stream : hipStreamPerThread, function, data));
}

struct callback { hipStreamCallback_t function; hipStream_t stream; void *data; };

static void call(void *data) {
  struct callback callback = *(struct callback *)data;
  free(data);
  callback.function(callback.stream, hipSuccess, callback.data);
}

static hipError_t add(hipStream_t handle, hipStreamCallback_t function, void *data, unsigned flags) {
  struct ihipStream_t *stream;
  if (!function || flags) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (stream->capture) return hipErrorStreamCaptureUnsupported;
  struct callback *callback = malloc(sizeof *callback);
  if (!callback) return hipErrorOutOfMemory;
  *callback = (struct callback){function, handle, data};
  hipError_t error = hip_stream_callback(stream, call, callback);
  if (error != hipSuccess) free(callback);
  return error;
}

HIP_API hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void *data, unsigned int flags) {
  HIP_ENTER();
  HIP_RETURN(add(stream, function, data, flags));
}

HIP_API hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t function, void *data, unsigned int flags) {
  HIP_ENTER();
  HIP_RETURN(add(stream ? stream : hipStreamPerThread, function, data, flags));
}
