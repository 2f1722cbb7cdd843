// Errors: the last error of each thread, and their names and texts.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { LINE_BYTES = 1024 };
static _Thread_local hipError_t last_error;

hipError_t hip_set_error(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) last_error = error;
  return error;
}

void hip_say(const char *format, ...) {
  char line[LINE_BYTES];
  int begin = snprintf(line, sizeof line, "rocm-perf-lab HIP: ");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + begin, sizeof line - (size_t)begin - 1, format, arguments);
  va_end(arguments);
  size_t length = strlen(line);
  line[length++] = '\n';
  (void)!write(STDERR_FILENO, line, length);
}

struct description { hipError_t error; const char *name, *text; };
#define DESCRIBE(error, text) {error, #error, text}
static const struct description descriptions[] = {
    DESCRIBE(hipSuccess, "no error"),
    DESCRIBE(hipErrorInvalidValue, "invalid argument"),
    DESCRIBE(hipErrorOutOfMemory, "out of memory"),
    DESCRIBE(hipErrorNotInitialized, "initialization error"),
    DESCRIBE(hipErrorDeinitialized, "driver shutting down"),
    DESCRIBE(hipErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
    DESCRIBE(hipErrorProfilerNotInitialized, "profiler is not initialized"),
    DESCRIBE(hipErrorProfilerAlreadyStarted, "profiler already started"),
    DESCRIBE(hipErrorProfilerAlreadyStopped, "profiler already stopped"),
    DESCRIBE(hipErrorInvalidConfiguration, "invalid configuration argument"),
    DESCRIBE(hipErrorInvalidPitchValue, "invalid pitch argument"),
    DESCRIBE(hipErrorInvalidSymbol, "invalid device symbol"),
    DESCRIBE(hipErrorInvalidDevicePointer, "invalid device pointer"),
    DESCRIBE(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    DESCRIBE(hipErrorInsufficientDriver, "driver version is insufficient for runtime version"),
    DESCRIBE(hipErrorMissingConfiguration, "__global__ function call is not configured"),
    DESCRIBE(hipErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
    DESCRIBE(hipErrorInvalidDeviceFunction, "invalid device function"),
    DESCRIBE(hipErrorNoDevice, "no ROCm-capable device is detected"),
    DESCRIBE(hipErrorInvalidDevice, "invalid device ordinal"),
    DESCRIBE(hipErrorInvalidImage, "device kernel image is invalid"),
    DESCRIBE(hipErrorInvalidContext, "invalid device context"),
    DESCRIBE(hipErrorContextAlreadyCurrent, "context is already current context"),
    DESCRIBE(hipErrorMapFailed, "mapping of buffer object failed"),
    DESCRIBE(hipErrorUnmapFailed, "unmapping of buffer object failed"),
    DESCRIBE(hipErrorArrayIsMapped, "array is mapped"),
    DESCRIBE(hipErrorAlreadyMapped, "resource already mapped"),
    DESCRIBE(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    DESCRIBE(hipErrorAlreadyAcquired, "resource already acquired"),
    DESCRIBE(hipErrorNotMapped, "resource not mapped"),
    DESCRIBE(hipErrorNotMappedAsArray, "resource not mapped as array"),
    DESCRIBE(hipErrorNotMappedAsPointer, "resource not mapped as pointer"),
    DESCRIBE(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"),
    DESCRIBE(hipErrorUnsupportedLimit, "limit is not supported on this architecture"),
    DESCRIBE(hipErrorContextAlreadyInUse, "exclusive-thread device already in use by a different thread"),
    DESCRIBE(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    DESCRIBE(hipErrorInvalidKernelFile, "invalid kernel file"),
    DESCRIBE(hipErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    DESCRIBE(hipErrorInvalidSource, "device kernel image is invalid"),
    DESCRIBE(hipErrorFileNotFound, "file not found"),
    DESCRIBE(hipErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    DESCRIBE(hipErrorSharedObjectInitFailed, "shared object initialization failed"),
    DESCRIBE(hipErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    DESCRIBE(hipErrorInvalidHandle, "invalid resource handle"),
    DESCRIBE(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    DESCRIBE(hipErrorNotFound, "named symbol not found"),
    DESCRIBE(hipErrorNotReady, "device not ready"),
    DESCRIBE(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    DESCRIBE(hipErrorLaunchOutOfResources, "out of resources"),
    DESCRIBE(hipErrorLaunchTimeOut, "the launch timed out and was terminated"),
    DESCRIBE(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    DESCRIBE(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    DESCRIBE(hipErrorSetOnActiveProcess, "cannot set while device is active in this process"),
    DESCRIBE(hipErrorContextIsDestroyed, "context is destroyed"),
    DESCRIBE(hipErrorAssert, "device-side assert triggered"),
    DESCRIBE(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    DESCRIBE(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    DESCRIBE(hipErrorLaunchFailure, "unspecified launch failure"),
    DESCRIBE(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    DESCRIBE(hipErrorNotSupported, "operation not supported"),
    DESCRIBE(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    DESCRIBE(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    DESCRIBE(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    DESCRIBE(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    DESCRIBE(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    DESCRIBE(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    DESCRIBE(hipErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    DESCRIBE(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    DESCRIBE(hipErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    DESCRIBE(hipErrorGraphExecUpdateFailure,
             "the graph update was not performed because it included changes which violated constraints specific to instantiated graph "
             "update"),
    DESCRIBE(hipErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    DESCRIBE(hipErrorInvalidTexture, "invalid texture"),
    DESCRIBE(hipErrorUnknown, "unknown error"),
    DESCRIBE(hipErrorRuntimeMemory, "runtime memory call returned error"),
    DESCRIBE(hipErrorRuntimeOther, "runtime call other than memory returned error"),
};

static const struct description *description_of(hipError_t error) {
  for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++)
    if (descriptions[i].error == error) return &descriptions[i];
  return NULL;
}

HIP_API hipError_t hipGetLastError(void) {
  hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}

HIP_API hipError_t hipPeekAtLastError(void) { return last_error; }

// The last error of this call chain as the driver sees it; AMD's runtime keeps it apart from that of hipGetLastError().
HIP_API hipError_t hipExtGetLastError(void) { return hipGetLastError(); }

HIP_API const char *hipGetErrorName(hipError_t error) {
  const struct description *found = description_of(error);
  return found ? found->name : "hipErrorUnknown";
}

HIP_API const char *hipGetErrorString(hipError_t error) {
  const struct description *found = description_of(error);
  return found ? found->text : "unknown error";
}

HIP_API hipError_t hipDrvGetErrorName(hipError_t error, const char **text) {
  const struct description *found = description_of(error);
  if (!text || !found) HIP_RETURN(hipErrorInvalidValue);
  *text = found->name;
  return hipSuccess;
}

HIP_API hipError_t hipDrvGetErrorString(hipError_t error, const char **text) {
  const struct description *found = description_of(error);
  if (!text || !found) HIP_RETURN(hipErrorInvalidValue);
  *text = found->text;
  return hipSuccess;
}
