// Exported functions that allocate, free and describe memory.
#define _GNU_SOURCE
#include <string.h>

#include "core.h"

enum { PITCH_ALIGNMENT = 256 };
enum {
  HOST_FLAGS = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined | hipHostMallocNumaUser | hipHostMallocCoherent |
               (int)hipHostMallocNonCoherent | hipHostMallocUncached
};

// ---- device memory ----

static hipError_t allocate(void **result, size_t bytes, enum hip_memory_kind kind, unsigned flags) {
  struct hip_memory block;
  if (!result) return hipErrorInvalidValue;
  *result = NULL;
  if (!bytes) return hipSuccess;
  HIP_TRY(hip_capture_forbids(NULL));
  struct hip_device *device = hip_current_device();
  if (kind == HIP_MEMORY_DEVICE && bytes > device->memory_bytes) return hipErrorOutOfMemory;
  HIP_TRY(hip_memory_allocate(device, kind, bytes, 0, flags, &block));
  *result = (void *)block.address;
  return hipSuccess;
}

HIP_API hipError_t hipMalloc(void **result, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(allocate(result, bytes, HIP_MEMORY_DEVICE, 0));
}

HIP_API hipError_t hipExtMallocWithFlags(void **result, size_t bytes, unsigned flags) {
  HIP_ENTER();
  switch (flags) {
    case hipDeviceMallocDefault: case hipDeviceMallocFinegrained: case hipDeviceMallocUncached: case hipDeviceMallocContiguous:
      HIP_RETURN(allocate(result, bytes, HIP_MEMORY_DEVICE, flags));
    case hipMallocSignalMemory:
      HIP_RETURN(bytes == sizeof(uint64_t) ? allocate(result, bytes, HIP_MEMORY_HOST, flags) : hipErrorInvalidValue);
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

// The whole device waits before memory is freed, as in AMD's runtime.
static hipError_t release(void *pointer, int is_host) {
  struct hip_memory block;
  if (!pointer) return hipSuccess;
  if (!hip_memory_find(pointer, &block) || block.address != (uint64_t)pointer || block.is_symbol) return hipErrorInvalidValue;
  if (block.kind == HIP_MEMORY_INTERNAL || block.kind == HIP_MEMORY_VIRTUAL) return hipErrorInvalidValue;
  if (block.kind == HIP_MEMORY_IPC && !(block.flags & HIP_MEMORY_OF_OTHER_POOL)) return hipErrorInvalidValue;
  if (block.kind == HIP_MEMORY_REGISTERED || (is_host && block.kind != HIP_MEMORY_HOST)) return hipErrorInvalidValue;
  for (int i = 0; i < hip_device_count(); i++)
    if (block.kind != HIP_MEMORY_DEVICE || block.device == hip_device_at(i)) hip_device_synchronize(hip_device_at(i));
  return block.pool ? hip_pool_free_now(&block) : hip_memory_free(block.address);
}

HIP_API hipError_t hipFree(void *pointer) {
  HIP_ENTER();
  HIP_RETURN(release(pointer, 0));
}

HIP_API hipError_t hipHostFree(void *pointer) {
  HIP_ENTER();
  HIP_RETURN(release(pointer, 1));
}

HIP_API hipError_t hipFreeHost(void *pointer) {
  HIP_ENTER();
  HIP_RETURN(release(pointer, 1));
}

static hipError_t allocate_rows(void **result, size_t *pitch, size_t width, size_t height, size_t depth) {
  if (!result || !pitch) return hipErrorInvalidValue;
  *pitch = (width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
  if (!width || !height || !depth) {
    *result = NULL;
    return hipSuccess;
  }
  return allocate(result, *pitch * height * depth, HIP_MEMORY_DEVICE, 0);
}

HIP_API hipError_t hipMallocPitch(void **result, size_t *pitch, size_t width, size_t height) {
  HIP_ENTER();
  HIP_RETURN(allocate_rows(result, pitch, width, height, 1));
}

HIP_API hipError_t hipMemAllocPitch(hipDeviceptr_t *result, size_t *pitch, size_t width, size_t height, unsigned element_bytes) {
  HIP_ENTER();
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(width && height ? allocate_rows((void **)result, pitch, width, height, 1) : hipErrorInvalidValue);
}

HIP_API hipError_t hipMalloc3D(hipPitchedPtr *result, hipExtent extent) {
  HIP_ENTER();
  if (!result) HIP_RETURN(hipErrorInvalidValue);
  result->xsize = extent.width;
  result->ysize = extent.height;
  HIP_RETURN(allocate_rows(&result->ptr, &result->pitch, extent.width, extent.height, extent.depth));
}

// ---- memory of the host ----

static hipError_t allocate_host(void **result, size_t bytes, unsigned flags) {
  if (!result || flags & ~(unsigned)HOST_FLAGS) return hipErrorInvalidValue;
  if (flags & hipHostMallocCoherent && flags & hipHostMallocNonCoherent) return hipErrorInvalidValue;
  return allocate(result, bytes, HIP_MEMORY_HOST, flags);
}

HIP_API hipError_t hipHostMalloc(void **result, size_t bytes, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(result, bytes, flags));
}

HIP_API hipError_t hipHostAlloc(void **result, size_t bytes, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(result, bytes, flags));
}

HIP_API hipError_t hipMallocHost(void **result, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(result, bytes, 0));
}

HIP_API hipError_t hipMemAllocHost(void **result, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(allocate_host(result, bytes, 0));
}

HIP_API hipError_t hipHostRegister(void *pointer, size_t bytes, unsigned flags) {
  // hipExtHostRegisterCoarseGrained has the bit of hipHostRegisterReadOnly.
  const unsigned known =
      hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | hipHostRegisterReadOnly | hipExtHostRegisterUncached;
  HIP_ENTER();
  struct hip_memory block;
  if (!pointer || !bytes || flags & ~known) HIP_RETURN(hipErrorInvalidValue);
  // Registering memory again is accepted, and then counts once.
  if (hip_memory_find(pointer, &block) && block.kind == HIP_MEMORY_REGISTERED && block.address == (uint64_t)pointer) return hipSuccess;
  HIP_RETURN(hip_memory_register_host(pointer, bytes, flags));
}

HIP_API hipError_t hipHostUnregister(void *pointer) {
  HIP_ENTER();
  struct hip_memory block;
  if (!pointer) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_memory_find(pointer, &block) || block.kind != HIP_MEMORY_REGISTERED || block.address != (uint64_t)pointer)
    HIP_RETURN(hipErrorHostMemoryNotRegistered);
  for (int i = 0; i < hip_device_count(); i++) hip_device_synchronize(hip_device_at(i));
  HIP_RETURN(hip_memory_free(block.address));
}

HIP_API hipError_t hipHostGetDevicePointer(void **result, void *pointer, unsigned flags) {
  HIP_ENTER();
  struct hip_memory block;
  if (!result || !pointer || flags || !hip_memory_find(pointer, &block)) HIP_RETURN(hipErrorInvalidValue);
  if (block.kind == HIP_MEMORY_DEVICE || block.kind == HIP_MEMORY_INTERNAL) HIP_RETURN(hipErrorInvalidValue);
  *result = pointer;
  return hipSuccess;
}

HIP_API hipError_t hipHostGetFlags(unsigned *flags, void *pointer) {
  HIP_ENTER();
  struct hip_memory block;
  if (!flags || !pointer || !hip_memory_find(pointer, &block)) HIP_RETURN(hipErrorInvalidValue);
  if (block.kind != HIP_MEMORY_HOST && block.kind != HIP_MEMORY_REGISTERED) HIP_RETURN(hipErrorInvalidValue);
  *flags = block.flags;
  return hipSuccess;
}

// ---- managed memory ----

HIP_API hipError_t hipMallocManaged(void **result, size_t bytes, unsigned flags) {
  HIP_ENTER();
  if (!result || !bytes || (flags != hipMemAttachGlobal && flags != hipMemAttachHost && flags)) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(allocate(result, bytes, HIP_MEMORY_MANAGED, 0));
}

static int is_location(int device) { return device == hipCpuDeviceId || hip_device_at(device); }

static void set_prefetched(struct hip_memory *block, const void *device) { block->prefetched = *(const int *)device; }

static hipError_t prefetch(const void *pointer, size_t bytes, int device, hipStream_t handle) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!pointer || !bytes) return hipErrorInvalidValue;
  if (!is_location(device)) return hipErrorInvalidDevice;
  if (!hip_memory_update((uint64_t)pointer, set_prefetched, &device)) return hipErrorInvalidValue;
  struct hip_operation operation = {.kind = HIP_OPERATION_EMPTY};
  return hip_enqueue(stream, &operation);
}

HIP_API hipError_t hipMemPrefetchAsync(const void *pointer, size_t bytes, int device, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(prefetch(pointer, bytes, device, stream));
}

HIP_API hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t bytes, hipMemLocation location, unsigned flags, hipStream_t stream) {
  HIP_ENTER();
  if (flags) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(prefetch(pointer, bytes, location.type == hipMemLocationTypeDevice ? location.id : hipCpuDeviceId, stream));
}

struct advice { hipMemoryAdvise kind; int device; };

static void take_advice(struct hip_memory *block, const void *data) {
  const struct advice *advice = data;
  switch (advice->kind) {
    case hipMemAdviseSetReadMostly: block->is_read_mostly = 1; break;
    case hipMemAdviseUnsetReadMostly: block->is_read_mostly = 0; break;
    case hipMemAdviseSetPreferredLocation: block->preferred = (hipMemLocation){hipMemLocationTypeDevice, advice->device}; break;
    case hipMemAdviseUnsetPreferredLocation: block->preferred = (hipMemLocation){hipMemLocationTypeInvalid, 0}; break;
    default: break;               // all devices have access
  }
}

static hipError_t advise(const void *pointer, size_t bytes, hipMemoryAdvise kind, int device) {
  struct advice advice = {kind, device};
  if (!pointer || !bytes) return hipErrorInvalidValue;
  int needs_device = kind != hipMemAdviseSetReadMostly && kind != hipMemAdviseUnsetReadMostly && kind != hipMemAdviseUnsetPreferredLocation;
  if (needs_device && !is_location(device)) return hipErrorInvalidDevice;
  return hip_memory_update((uint64_t)pointer, take_advice, &advice) ? hipSuccess : hipErrorInvalidValue;
}

HIP_API hipError_t hipMemAdvise(const void *pointer, size_t bytes, hipMemoryAdvise kind, int device) {
  HIP_ENTER();
  HIP_RETURN(advise(pointer, bytes, kind, device));
}

HIP_API hipError_t hipMemAdvise_v2(const void *pointer, size_t bytes, hipMemoryAdvise kind, hipMemLocation location) {
  HIP_ENTER();
  HIP_RETURN(advise(pointer, bytes, kind, location.type == hipMemLocationTypeDevice ? location.id : hipCpuDeviceId));
}

static hipError_t range_attribute(void *data, size_t size, hipMemRangeAttribute attribute, const void *pointer, size_t bytes) {
  struct hip_memory block;
  if (!data || size < sizeof(int) || !pointer || !bytes || !hip_memory_find(pointer, &block)) return hipErrorInvalidValue;
  int *values = data;
  switch (attribute) {
    case hipMemRangeAttributeReadMostly: *values = block.is_read_mostly; return hipSuccess;
    case hipMemRangeAttributePreferredLocation:
      *values = block.preferred.type == hipMemLocationTypeDevice ? block.preferred.id : hipInvalidDeviceId;
      return hipSuccess;
    case hipMemRangeAttributeAccessedBy:
      for (size_t i = 0; i < size / sizeof *values; i++) values[i] = (int)i < hip_device_count() ? (int)i : hipInvalidDeviceId;
      return hipSuccess;
    case hipMemRangeAttributeLastPrefetchLocation: *values = block.prefetched; return hipSuccess;
    case hipMemRangeAttributeCoherencyMode: *values = hipMemRangeCoherencyModeFineGrain; return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

HIP_API hipError_t hipMemRangeGetAttribute(void *data, size_t size, hipMemRangeAttribute attribute, const void *pointer, size_t bytes) {
  HIP_ENTER();
  HIP_RETURN(range_attribute(data, size, attribute, pointer, bytes));
}

HIP_API hipError_t hipMemRangeGetAttributes(void **data, size_t *sizes, hipMemRangeAttribute *attributes, size_t count, const void *pointer, size_t bytes) {
  HIP_ENTER();
  if (!data || !sizes || !attributes || !count) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = hipSuccess;
  for (size_t i = 0; i < count && error == hipSuccess; i++) error = range_attribute(data[i], sizes[i], attributes[i], pointer, bytes);
  HIP_RETURN(error);
}

HIP_API hipError_t hipStreamAttachMemAsync(hipStream_t handle, void *pointer, size_t bytes, unsigned flags) {
  HIP_ENTER();
  (void)bytes;
  struct hip_memory block;
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error != hipSuccess) HIP_RETURN(error);
  int is_known = flags == hipMemAttachGlobal || flags == hipMemAttachHost || flags == hipMemAttachSingle;
  HIP_RETURN(pointer && is_known && hip_memory_find(pointer, &block) && block.kind == HIP_MEMORY_MANAGED ? hipSuccess : hipErrorInvalidValue);
}

// ---- questions ----

HIP_API hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total) {
  HIP_ENTER();
  if (!free_bytes && !total) HIP_RETURN(hipErrorInvalidValue);
  const struct hip_device *device = hip_current_device();
  struct kfd_ioctl_get_available_memory_args args = {.gpu_id = device->gpu_id};
  if (hip_kfd(AMDKFD_IOC_AVAILABLE_MEMORY, &args)) HIP_RETURN(hipErrorUnknown);
  if (free_bytes) *free_bytes = args.available;
  if (total) *total = device->memory_bytes;
  return hipSuccess;
}

static hipMemoryType type_of(const struct hip_memory *block) {
  switch (block->kind) {
    case HIP_MEMORY_HOST: case HIP_MEMORY_REGISTERED: return hipMemoryTypeHost;
    case HIP_MEMORY_MANAGED: return hipMemoryTypeManaged;
    default: return hipMemoryTypeDevice;
  }
}

HIP_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t *result, const void *pointer) {
  HIP_ENTER();
  struct hip_memory block;
  if (!result || !pointer) HIP_RETURN(hipErrorInvalidValue);
  memset(result, 0, sizeof *result);
  if (!hip_memory_find(pointer, &block) || block.kind == HIP_MEMORY_INTERNAL) {
    result->type = hipMemoryTypeUnregistered;
    result->device = hipInvalidDeviceId;
    return hipSuccess;
  }
  result->type = type_of(&block);
  result->device = block.device->index;
  result->devicePointer = (void *)pointer;
  result->hostPointer = result->type == hipMemoryTypeDevice ? NULL : (void *)pointer;
  result->isManaged = result->type == hipMemoryTypeManaged;
  result->allocationFlags = block.flags;
  return hipSuccess;
}

static hipError_t pointer_attribute(void *data, hipPointer_attribute attribute, void *pointer) {
  struct hip_memory block;
  if (!data || !pointer || !hip_memory_find(pointer, &block)) return hipErrorInvalidValue;
  hipMemoryType type = type_of(&block);
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT: *(void **)data = block.device; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = type; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: *(void **)data = pointer; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      if (type == hipMemoryTypeDevice) return hipErrorInvalidValue;
      *(void **)data = pointer;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: *(uint64_t *)data = block.id; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: *(int *)data = type == hipMemoryTypeManaged; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = block.device->index; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(void **)data = (void *)block.address; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = block.size; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_MAPPED: *(int *)data = 1; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(int *)data = 0; return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE: *(int *)data = block.kind == HIP_MEMORY_DEVICE; return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

HIP_API hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t pointer) {
  HIP_ENTER();
  HIP_RETURN(pointer_attribute(data, attribute, (void *)pointer));
}

HIP_API hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute *attributes, void **data, hipDeviceptr_t pointer) {
  HIP_ENTER();
  if (!count || !attributes || !data) HIP_RETURN(hipErrorInvalidValue);
  for (unsigned i = 0; i < count; i++)
    if (data[i]) pointer_attribute(data[i], attributes[i], (void *)pointer);
  return hipSuccess;
}

HIP_API hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute attribute, hipDeviceptr_t pointer) {
  HIP_ENTER();
  int is_known = attribute == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS && hip_memory_find((const void *)pointer, NULL);
  HIP_RETURN(value && is_known ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t pointer) {
  HIP_ENTER();
  struct hip_memory block;
  if (!hip_memory_find((const void *)pointer, &block)) HIP_RETURN(hipErrorNotFound);
  if (base) *base = (hipDeviceptr_t)block.address;
  if (bytes) *bytes = block.size;
  return hipSuccess;
}

HIP_API hipError_t hipMemPtrGetInfo(void *pointer, size_t *bytes) {
  HIP_ENTER();
  struct hip_memory block;
  if (!bytes) HIP_RETURN(hipErrorInvalidValue);
  if (!pointer || !hip_memory_find(pointer, &block)) HIP_RETURN(hipErrorInvalidValue);
  *bytes = block.size;
  return hipSuccess;
}

// ---- memory of other processes ----

struct memory_handle { uint32_t share[4], magic, device; uint64_t bytes, offset; };
enum { MAGIC = 0x52504c4d };
_Static_assert(sizeof(struct memory_handle) <= sizeof(hipIpcMemHandle_t), "a handle holds the identity of a block");

_Static_assert(sizeof(struct memory_handle) <= sizeof(hipMemPoolPtrExportData), "so do the data about memory of a pool");

// Writes the identity of a block of device memory, which is one of a pool or not, to `bytes` bytes at `handle`.
static hipError_t export_block(const void *pointer, int is_of_pool, void *handle, size_t bytes) {
  struct hip_memory block;
  if (!handle || !pointer || !hip_memory_find(pointer, &block) || block.kind != HIP_MEMORY_DEVICE || block.is_symbol || (is_of_pool && !block.pool))
    return hipErrorInvalidValue;
  struct memory_handle content = {.magic = MAGIC, .device = block.device->gpu_id, .bytes = block.size,
                                  .offset = (uint64_t)pointer - block.address};
  hipError_t error = hip_memory_share(&block, content.share);
  memset(handle, 0, bytes);
  memcpy(handle, &content, sizeof content);
  return error;
}

static hipError_t import_block(const void *handle, struct hip_device *device, void **result) {
  struct memory_handle content;
  struct hip_memory block;
  memcpy(&content, handle, sizeof content);
  if (!result || content.magic != MAGIC) return hipErrorInvalidValue;
  if (hip_memory_is_own_share(content.share)) return hipErrorInvalidContext;
  HIP_TRY(hip_memory_open_shared(content.share, device, content.bytes, &block));
  *result = (void *)(block.address + content.offset);
  return hipSuccess;
}

static void belongs_to_other_pool(struct hip_memory *block, const void *data) {
  (void)data;
  block->flags |= HIP_MEMORY_OF_OTHER_POOL;
}

HIP_API hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *pointer) {
  HIP_ENTER();
  HIP_RETURN(export_block(pointer, 0, handle, sizeof *handle));
}

HIP_API hipError_t hipIpcOpenMemHandle(void **result, hipIpcMemHandle_t handle, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(flags == hipIpcMemLazyEnablePeerAccess ? import_block(&handle, hip_current_device(), result) : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *data, void *pointer) {
  HIP_ENTER();
  HIP_RETURN(export_block(pointer, 1, data, sizeof *data));
}

HIP_API hipError_t hipMemPoolImportPointer(void **result, hipMemPool_t pool, hipMemPoolPtrExportData *data) {
  HIP_ENTER();
  struct hip_device *device = hip_pool_device(pool);
  hipError_t error = device && data ? import_block(data, device, result) : hipErrorInvalidValue;
  if (error == hipSuccess) hip_memory_update((uint64_t)*result, belongs_to_other_pool, NULL);
  HIP_RETURN(error);
}

HIP_API hipError_t hipIpcCloseMemHandle(void *pointer) {
  HIP_ENTER();
  struct hip_memory block;
  if (!pointer || !hip_memory_find(pointer, &block) || block.kind != HIP_MEMORY_IPC) HIP_RETURN(hipErrorInvalidValue);
  for (int i = 0; i < hip_device_count(); i++) hip_device_synchronize(hip_device_at(i));
  HIP_RETURN(hip_memory_free(block.address));
}
