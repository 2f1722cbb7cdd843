// Exported functions that copy and fill memory.
#define _GNU_SOURCE
#include <string.h>

#include "core.h"

enum { BYTE = 1, HALF = 2, WORD = 4 };

// ---- checks ----

// Whether [address, address + bytes) is inside one block, or several mappings that follow each other, or is memory that the runtime
// does not know (pageable).
static hipError_t check_side(const void *address, uint64_t bytes, int *is_known, struct hip_memory *block) {
  *is_known = hip_memory_find(address, block);
  if (!*is_known) return hipSuccess;
  uint64_t end = (uint64_t)address + bytes;
  struct hip_memory last = *block;
  while (end > last.address + last.size && last.kind == HIP_MEMORY_VIRTUAL)
    if (!hip_memory_find((const void *)(last.address + last.size), &last)) return hipErrorInvalidValue;
  return end <= last.address + last.size ? hipSuccess : hipErrorInvalidValue;
}

static int is_valid_kind(hipMemcpyKind kind) { return (unsigned)kind <= hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU; }

// What AMD's runtime refuses: copies "to" or "from" a device without any memory of one.
static hipError_t check_kind(hipMemcpyKind kind, int knows_to, int knows_from) {
  if (!is_valid_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (!knows_to && !knows_from && kind != hipMemcpyHostToHost && kind != hipMemcpyDefault) return hipErrorInvalidValue;
  return hipSuccess;
}

static hipError_t check_copy(const struct hip_copy *copy, int *is_pageable) {
  struct hip_memory block;
  int knows_to, knows_from;
  uint64_t rows = copy->height - 1, planes = copy->depth - 1;
  if (!copy->to.address || !copy->from.address) return hipErrorInvalidValue;
  HIP_TRY(check_side((const void *)copy->to.address, planes * copy->to.slice + rows * copy->to.pitch + copy->width, &knows_to, &block));
  HIP_TRY(check_side((const void *)copy->from.address, planes * copy->from.slice + rows * copy->from.pitch + copy->width, &knows_from, &block));
  *is_pageable = !knows_to || !knows_from;
  return check_kind(copy->kind, knows_to, knows_from);
}

// ---- copies ----

static int is_linear(const struct hip_copy *copy) { return copy->height == 1 && copy->depth == 1; }

static hipError_t copy_on(hipStream_t handle, const struct hip_copy *copy, int waits) {
  struct ihipStream_t *stream;
  int is_pageable;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!is_valid_kind(copy->kind)) return hipErrorInvalidMemcpyDirection;
  if (!copy->width || !copy->height || !copy->depth) return hipSuccess;
  HIP_TRY(check_copy(copy, &is_pageable));
  if (waits) HIP_TRY(hip_capture_forbids(stream));
  // Pageable memory may be used again when the call returns.
  if (stream->capture || (!waits && !is_pageable)) {
    struct hip_operation operation = {.kind = HIP_OPERATION_COPY, .copy = *copy};
    return hip_enqueue(stream, &operation);
  }
  if (is_linear(copy)) return hip_copy_now(stream, (void *)copy->to.address, (const void *)copy->from.address, copy->width, copy->kind);
  HIP_TRY(hip_execute_copy(stream, copy));
  return hip_stream_synchronize(stream);
}

static hipError_t copy_bytes(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream, int waits) {
  struct hip_copy copy = {.to = {(uint64_t)to, bytes, bytes}, .from = {(uint64_t)from, bytes, bytes}, .width = bytes, .height = 1, .depth = 1,
                          .kind = kind};
  return copy_on(stream, &copy, waits);
}

#define SPT(stream) ((stream) ? (stream) : hipStreamPerThread)

HIP_API hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, from, bytes, kind, NULL, 1));
}

HIP_API hipError_t hipMemcpy_spt(void *to, const void *from, size_t bytes, hipMemcpyKind kind) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, from, bytes, kind, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemcpyWithStream(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, from, bytes, kind, stream, 1));
}

HIP_API hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, from, bytes, kind, stream, 0));
}

HIP_API hipError_t hipMemcpyAsync_spt(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, from, bytes, kind, SPT(stream), 0));
}

HIP_API hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void *from, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes((void *)to, from, bytes, hipMemcpyHostToDevice, NULL, 1));
}

HIP_API hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, (const void *)from, bytes, hipMemcpyDeviceToHost, NULL, 1));
}

HIP_API hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes((void *)to, (const void *)from, bytes, hipMemcpyDeviceToDevice, NULL, 1));
}

HIP_API hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void *from, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes((void *)to, from, bytes, hipMemcpyHostToDevice, stream, 0));
}

HIP_API hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes(to, (const void *)from, bytes, hipMemcpyDeviceToHost, stream, 0));
}

HIP_API hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_bytes((void *)to, (const void *)from, bytes, hipMemcpyDeviceToDevice, stream, 0));
}

static hipError_t check_devices(int to, int from) { return hip_device_at(to) && hip_device_at(from) ? hipSuccess : hipErrorInvalidDevice; }

HIP_API hipError_t hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
  HIP_ENTER();
  hipError_t error = check_devices(to_device, from_device);
  HIP_RETURN(error == hipSuccess ? copy_bytes(to, from, bytes, hipMemcpyDeviceToDevice, NULL, 1) : error);
}

HIP_API hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  hipError_t error = check_devices(to_device, from_device);
  HIP_RETURN(error == hipSuccess ? copy_bytes(to, from, bytes, hipMemcpyDeviceToDevice, stream, 0) : error);
}

// ---- copies of rows ----

static hipError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipMemcpyKind kind,
                            hipStream_t stream, int waits) {
  if (!width || !height) return hipSuccess;
  if (width > to_pitch || width > from_pitch) return hipErrorInvalidPitchValue;
  struct hip_copy copy = {.to = {(uint64_t)to, to_pitch, to_pitch * height}, .from = {(uint64_t)from, from_pitch, from_pitch * height},
                          .width = width, .height = height, .depth = 1, .kind = kind};
  return copy_on(stream, &copy, waits);
}

HIP_API hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipMemcpyKind kind) {
  HIP_ENTER();
  HIP_RETURN(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, NULL, 1));
}

HIP_API hipError_t hipMemcpy2D_spt(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                   hipMemcpyKind kind) {
  HIP_ENTER();
  HIP_RETURN(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                    hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, 0));
}

HIP_API hipError_t hipMemcpy2DAsync_spt(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                        hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, SPT(stream), 0));
}

static struct hip_box box_of(hipMemoryType type, const void *host, hipDeviceptr_t device, size_t pitch, size_t height, size_t x, size_t y, size_t z) {
  uint64_t address = type == hipMemoryTypeHost ? (uint64_t)host : (uint64_t)device, slice = pitch * height;
  return (struct hip_box){address + z * slice + y * pitch + x, pitch, slice};
}

static hipMemcpyKind kind_of(hipMemoryType to, hipMemoryType from) {
  if (to == hipMemoryTypeUnified || from == hipMemoryTypeUnified) return hipMemcpyDefault;
  if (to == hipMemoryTypeHost) return from == hipMemoryTypeHost ? hipMemcpyHostToHost : hipMemcpyDeviceToHost;
  return from == hipMemoryTypeHost ? hipMemcpyHostToDevice : hipMemcpyDeviceToDevice;
}

static hipError_t copy_param2d(const hip_Memcpy2D *p, hipStream_t stream, int waits) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcMemoryType == hipMemoryTypeArray || p->dstMemoryType == hipMemoryTypeArray) return hipErrorNotSupported;
  if (!p->WidthInBytes || !p->Height) return hipSuccess;
  size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes, from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
  if (to_pitch < p->WidthInBytes + p->dstXInBytes || from_pitch < p->WidthInBytes + p->srcXInBytes) return hipErrorInvalidPitchValue;
  struct hip_copy copy = {.to = box_of(p->dstMemoryType, p->dstHost, p->dstDevice, to_pitch, p->Height, p->dstXInBytes, p->dstY, 0),
                          .from = box_of(p->srcMemoryType, p->srcHost, p->srcDevice, from_pitch, p->Height, p->srcXInBytes, p->srcY, 0),
                          .width = p->WidthInBytes, .height = p->Height, .depth = 1, .kind = kind_of(p->dstMemoryType, p->srcMemoryType)};
  return copy_on(stream, &copy, waits);
}

HIP_API hipError_t hipMemcpyParam2D(const hip_Memcpy2D *p) {
  HIP_ENTER();
  HIP_RETURN(copy_param2d(p, NULL, 1));
}

HIP_API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *p) {
  HIP_ENTER();
  HIP_RETURN(copy_param2d(p, NULL, 1));
}

HIP_API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *p, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_param2d(p, stream, 0));
}

// ---- copies of cuboids ----

static struct hip_box pitched_box(const hipPitchedPtr *pointer, const hipPos *at) {
  uint64_t slice = pointer->pitch * pointer->ysize;
  return (struct hip_box){(uint64_t)pointer->ptr + at->z * slice + at->y * pointer->pitch + at->x, pointer->pitch, slice};
}

hipError_t hip_copy_of_3d(const struct hipMemcpy3DParms *p, struct hip_copy *copy) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcArray || p->dstArray) return hipErrorNotSupported;
  const hipExtent *extent = &p->extent;
  *copy = (struct hip_copy){.to = pitched_box(&p->dstPtr, &p->dstPos), .from = pitched_box(&p->srcPtr, &p->srcPos), .width = extent->width,
                            .height = extent->height, .depth = extent->depth, .kind = p->kind};
  if (!extent->width || !extent->height || !extent->depth) return hipSuccess;
  if (!p->srcPtr.ptr || !p->dstPtr.ptr) return hipErrorInvalidValue;
  if (p->srcPos.x + extent->width > p->srcPtr.pitch || p->dstPos.x + extent->width > p->dstPtr.pitch) return hipErrorInvalidValue;
  return hipSuccess;
}

static hipError_t copy_3d(const struct hipMemcpy3DParms *p, hipStream_t stream, int waits) {
  struct hip_copy copy;
  HIP_TRY(hip_copy_of_3d(p, &copy));
  return copy_on(stream, &copy, waits);
}

HIP_API hipError_t hipMemcpy3D(const struct hipMemcpy3DParms *p) {
  HIP_ENTER();
  HIP_RETURN(copy_3d(p, NULL, 1));
}

HIP_API hipError_t hipMemcpy3D_spt(const struct hipMemcpy3DParms *p) {
  HIP_ENTER();
  HIP_RETURN(copy_3d(p, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms *p, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_3d(p, stream, 0));
}

HIP_API hipError_t hipMemcpy3DAsync_spt(const struct hipMemcpy3DParms *p, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_3d(p, SPT(stream), 0));
}

static hipError_t copy_driver_3d(const HIP_MEMCPY3D *p, hipStream_t stream, int waits) {
  if (!p) return hipErrorInvalidValue;
  if (p->srcMemoryType == hipMemoryTypeArray || p->dstMemoryType == hipMemoryTypeArray) return hipErrorNotSupported;
  struct hip_copy copy = {
      .to = box_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, p->dstHeight, p->dstXInBytes, p->dstY, p->dstZ),
      .from = box_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, p->srcHeight, p->srcXInBytes, p->srcY, p->srcZ),
      .width = p->WidthInBytes, .height = p->Height, .depth = p->Depth, .kind = kind_of(p->dstMemoryType, p->srcMemoryType)};
  return copy_on(stream, &copy, waits);
}

HIP_API hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *p) {
  HIP_ENTER();
  HIP_RETURN(copy_driver_3d(p, NULL, 1));
}

HIP_API hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *p, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(copy_driver_3d(p, stream, 0));
}

// ---- fills ----

static hipError_t fill_on(hipStream_t handle, const struct hip_fill *fill, int waits) {
  struct ihipStream_t *stream;
  struct hip_memory block;
  int is_known;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!fill->width || !fill->height || !fill->depth) return hipSuccess;
  uint64_t bytes = (fill->depth - 1) * fill->to.slice + (fill->height - 1) * fill->to.pitch + fill->width;
  HIP_TRY(check_side((const void *)fill->to.address, bytes, &is_known, &block));
  if (!is_known) return hipErrorInvalidValue;
  if (waits) HIP_TRY(hip_capture_forbids(stream));
  struct hip_operation operation = {.kind = HIP_OPERATION_FILL, .fill = *fill};
  HIP_TRY(hip_enqueue(stream, &operation));
  return waits ? hip_stream_synchronize(stream) : hipSuccess;
}

static hipError_t fill_units(void *to, uint32_t value, uint32_t unit, size_t count, hipStream_t stream, int waits) {
  if ((uint64_t)to % unit) return hipErrorInvalidValue;
  uint64_t bytes = (uint64_t)count * unit;
  struct hip_fill fill = {.to = {(uint64_t)to, bytes, bytes}, .width = bytes, .height = 1, .depth = 1, .value = value, .unit = unit};
  return fill_on(stream, &fill, waits);
}

#define DEFINE_FILL(name, type, value_type, unit)                                                                     \
  HIP_API hipError_t name(type to, value_type value, size_t count) {                                                   \
    HIP_ENTER();                                                                                                       \
    HIP_RETURN(fill_units((void *)to, (uint32_t)value, unit, count, NULL, 1));                                         \
  }                                                                                                                    \
  HIP_API hipError_t name##Async(type to, value_type value, size_t count, hipStream_t stream) {                        \
    HIP_ENTER();                                                                                                       \
    HIP_RETURN(fill_units((void *)to, (uint32_t)value, unit, count, stream, 0));                                       \
  }
DEFINE_FILL(hipMemset, void *, int, BYTE)
DEFINE_FILL(hipMemsetD8, hipDeviceptr_t, unsigned char, BYTE)
DEFINE_FILL(hipMemsetD16, hipDeviceptr_t, unsigned short, HALF)
DEFINE_FILL(hipMemsetD32, hipDeviceptr_t, int, WORD)

HIP_API hipError_t hipMemset_spt(void *to, int value, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(fill_units(to, (uint32_t)value, BYTE, bytes, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemsetAsync_spt(void *to, int value, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(fill_units(to, (uint32_t)value, BYTE, bytes, SPT(stream), 0));
}

static hipError_t fill_rows(void *to, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height, hipStream_t stream, int waits) {
  if (width * unit > pitch) return hipErrorInvalidValue;
  struct hip_fill fill = {.to = {(uint64_t)to, pitch, pitch * height}, .width = width * unit, .height = height, .depth = 1, .value = value,
                          .unit = unit};
  return fill_on(stream, &fill, waits);
}

HIP_API hipError_t hipMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
  HIP_ENTER();
  HIP_RETURN(fill_rows(to, pitch, (uint32_t)value, BYTE, width, height, NULL, 1));
}

HIP_API hipError_t hipMemset2D_spt(void *to, size_t pitch, int value, size_t width, size_t height) {
  HIP_ENTER();
  HIP_RETURN(fill_rows(to, pitch, (uint32_t)value, BYTE, width, height, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(fill_rows(to, pitch, (uint32_t)value, BYTE, width, height, stream, 0));
}

HIP_API hipError_t hipMemset2DAsync_spt(void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(fill_rows(to, pitch, (uint32_t)value, BYTE, width, height, SPT(stream), 0));
}

#define DEFINE_FILL_ROWS(name, value_type, unit)                                                                                     \
  HIP_API hipError_t name(hipDeviceptr_t to, size_t pitch, value_type value, size_t width, size_t height) {                           \
    HIP_ENTER();                                                                                                                      \
    HIP_RETURN(fill_rows((void *)to, pitch, (uint32_t)value, unit, width, height, NULL, 1));                                          \
  }                                                                                                                                   \
  HIP_API hipError_t name##Async(hipDeviceptr_t to, size_t pitch, value_type value, size_t width, size_t height, hipStream_t stream) { \
    HIP_ENTER();                                                                                                                      \
    HIP_RETURN(fill_rows((void *)to, pitch, (uint32_t)value, unit, width, height, stream, 0));                                        \
  }
DEFINE_FILL_ROWS(hipMemsetD2D8, unsigned char, BYTE)
DEFINE_FILL_ROWS(hipMemsetD2D16, unsigned short, HALF)
DEFINE_FILL_ROWS(hipMemsetD2D32, unsigned, WORD)

static hipError_t fill_3d(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream, int waits) {
  if (extent.width > to.pitch) return hipErrorInvalidValue;
  struct hip_fill fill = {.to = {(uint64_t)to.ptr, to.pitch, to.pitch * to.ysize}, .width = extent.width, .height = extent.height,
                          .depth = extent.depth, .value = (uint32_t)value, .unit = BYTE};
  return fill_on(stream, &fill, waits);
}

HIP_API hipError_t hipMemset3D(hipPitchedPtr to, int value, hipExtent extent) {
  HIP_ENTER();
  HIP_RETURN(fill_3d(to, value, extent, NULL, 1));
}

HIP_API hipError_t hipMemset3D_spt(hipPitchedPtr to, int value, hipExtent extent) {
  HIP_ENTER();
  HIP_RETURN(fill_3d(to, value, extent, hipStreamPerThread, 1));
}

HIP_API hipError_t hipMemset3DAsync(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(fill_3d(to, value, extent, stream, 0));
}

HIP_API hipError_t hipMemset3DAsync_spt(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(fill_3d(to, value, extent, SPT(stream), 0));
}
