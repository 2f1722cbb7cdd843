// Variables of the device by their host variables: addresses, sizes and copies.
#include "modules.h"

static hipError_t variable(const void *symbol, struct hip_device *device, uint64_t *address, uint64_t *bytes) {
  if (!symbol) return hipErrorInvalidSymbol;
  return hip_registered_variable(symbol, device, address, bytes);
}

HIP_API hipError_t hipGetSymbolAddress(void **result, const void *symbol) {
  HIP_ENTER();
  uint64_t address, bytes;
  if (!result) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = variable(symbol, hip_current_device(), &address, &bytes);
  if (error == hipSuccess) *result = (void *)address;
  HIP_RETURN(error);
}

HIP_API hipError_t hipGetSymbolSize(size_t *size, const void *symbol) {
  HIP_ENTER();
  uint64_t address, bytes;
  if (!size) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = variable(symbol, hip_current_device(), &address, &bytes);
  if (error == hipSuccess) *size = bytes;
  HIP_RETURN(error);
}

hipError_t hip_variable_part(const void *symbol, struct hip_device *device, size_t bytes, size_t offset, uint64_t *address) {
  uint64_t size;
  HIP_TRY(variable(symbol, device, address, &size));
  if (offset > size || bytes > size - offset) return hipErrorInvalidValue;
  *address += offset;
  return hipSuccess;
}

static int is_to_symbol(hipMemcpyKind kind) {
  return kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU;
}

static int is_from_symbol(hipMemcpyKind kind) {
  return kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU;
}

static struct hip_operation copy_of(uint64_t to, uint64_t from, size_t bytes, hipMemcpyKind kind) {
  return (struct hip_operation){
      .kind = HIP_OPERATION_COPY,
      .copy = {.to = {.address = to, .pitch = bytes}, .from = {.address = from, .pitch = bytes}, .width = bytes, .height = 1, .depth = 1, .kind = kind}};
}

enum timing { NOW, LATER };

static hipError_t copy_to(const void *symbol, const void *from, size_t bytes, size_t offset, hipMemcpyKind kind, hipStream_t handle, enum timing timing) {
  struct ihipStream_t *stream;
  uint64_t to;
  if (!is_to_symbol(kind)) return hipErrorInvalidMemcpyDirection;
  HIP_TRY(hip_stream_of(handle, &stream));
  HIP_TRY(hip_variable_part(symbol, stream->device, bytes, offset, &to));
  if (!bytes) return hipSuccess;
  if (!from) return hipErrorInvalidValue;
  if (timing == NOW) {
    HIP_TRY(hip_capture_forbids(stream));
    return hip_copy_now(stream, (void *)to, from, bytes, kind);
  }
  struct hip_operation operation = copy_of(to, (uint64_t)from, bytes, kind);
  return hip_enqueue(stream, &operation);
}

static hipError_t copy_from(void *to, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind, hipStream_t handle, enum timing timing) {
  struct ihipStream_t *stream;
  uint64_t from;
  if (!is_from_symbol(kind)) return hipErrorInvalidMemcpyDirection;
  HIP_TRY(hip_stream_of(handle, &stream));
  HIP_TRY(hip_variable_part(symbol, stream->device, bytes, offset, &from));
  if (!bytes) return hipSuccess;
  if (!to) return hipErrorInvalidValue;
  if (timing == NOW) {
    HIP_TRY(hip_capture_forbids(stream));
    return hip_copy_now(stream, to, (const void *)from, bytes, kind);
  }
  struct hip_operation operation = copy_of((uint64_t)to, from, bytes, kind);
  return hip_enqueue(stream, &operation);
}

#define TO_SYMBOL(name, handle, timing, ...)                                                                               \
  HIP_API hipError_t name(const void *symbol, const void *from, size_t bytes, size_t offset, hipMemcpyKind kind __VA_ARGS__); \
  HIP_API hipError_t name(const void *symbol, const void *from, size_t bytes, size_t offset, hipMemcpyKind kind __VA_ARGS__) { \
    HIP_ENTER();                                                                                                            \
    HIP_RETURN(copy_to(symbol, from, bytes, offset, kind, handle, timing));                                                 \
  }
#define FROM_SYMBOL(name, handle, timing, ...)                                                                             \
  HIP_API hipError_t name(void *to, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind __VA_ARGS__);       \
  HIP_API hipError_t name(void *to, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind __VA_ARGS__) {      \
    HIP_ENTER();                                                                                                            \
    HIP_RETURN(copy_from(to, symbol, bytes, offset, kind, handle, timing));                                                 \
  }
#define AND_STREAM , hipStream_t stream
TO_SYMBOL(hipMemcpyToSymbol, NULL, NOW)
TO_SYMBOL(hipMemcpyToSymbol_spt, hipStreamPerThread, NOW)
TO_SYMBOL(hipMemcpyToSymbolAsync, stream, LATER, AND_STREAM)
TO_SYMBOL(hipMemcpyToSymbolAsync_spt, stream ? stream : hipStreamPerThread, LATER, AND_STREAM)
FROM_SYMBOL(hipMemcpyFromSymbol, NULL, NOW)
FROM_SYMBOL(hipMemcpyFromSymbol_spt, hipStreamPerThread, NOW)
FROM_SYMBOL(hipMemcpyFromSymbolAsync, stream, LATER, AND_STREAM)
FROM_SYMBOL(hipMemcpyFromSymbolAsync_spt, stream ? stream : hipStreamPerThread, LATER, AND_STREAM)
