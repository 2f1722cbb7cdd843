// Memory in stream order: hipMallocAsync, hipFreeAsync and pools.
//
// A freed block stays mapped until the work that may use it is complete, and is then kept for the next allocation of its size up to
// the release threshold of its pool.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"

struct freed {
  struct freed *next;
  struct hip_memory block;
  struct hip_signal *after;       // NULL: at once
};
struct ihipMemPoolHandle_t {
  struct hip_device *device;
  int is_default, reuses_events, reuses_opportunistically, reuses_internally;
  uint64_t release_threshold, reserved, reserved_high, used, used_high;
  struct freed *freed;
  uint32_t peers;                 // bit per device that hipMemPoolSetAccess() gave access to
  struct ihipMemPoolHandle_t *next;
};
static struct ihipMemPoolHandle_t *pools;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct ihipMemPoolHandle_t *create(struct hip_device *device, int is_default) {
  struct ihipMemPoolHandle_t *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  *pool = (struct ihipMemPoolHandle_t){.device = device, .is_default = is_default, .reuses_events = 1, .reuses_opportunistically = 1,
                                       .reuses_internally = 1, .next = pools};
  pools = pool;
  return pool;
}

struct ihipMemPoolHandle_t *hip_default_pool(struct hip_device *device) {
  pthread_mutex_lock(&lock);
  if (!device->default_pool) device->default_pool = create(device, 1);
  if (!device->pool) device->pool = device->default_pool;
  pthread_mutex_unlock(&lock);
  return device->default_pool;
}

static struct ihipMemPoolHandle_t *current_pool(struct hip_device *device) {
  hip_default_pool(device);
  return device->pool;
}

static int is_pool(const struct ihipMemPoolHandle_t *pool) {
  pthread_mutex_lock(&lock);
  const struct ihipMemPoolHandle_t *found = pools;
  while (found && found != pool) found = found->next;
  pthread_mutex_unlock(&lock);
  return found != NULL;
}

struct hip_device *hip_pool_device(const struct ihipMemPoolHandle_t *pool) { return is_pool(pool) ? pool->device : NULL; }

// ---- blocks ----

struct renewal { uint64_t size; struct ihipMemPoolHandle_t *pool; enum hip_memory_kind kind; };

static void renew(struct hip_memory *block, const void *data) {
  const struct renewal *renewal = data;
  block->size = renewal->size;
  block->pool = renewal->pool;
  block->kind = renewal->kind;
}

static int is_past(const struct freed *freed) { return !freed->after || hip_signal_load(freed->after) <= 0; }

// Gives memory back to the device beyond what the pool keeps. Returns what it still holds in freed blocks.
static void trim_locked(struct ihipMemPoolHandle_t *pool, uint64_t keep) {
  for (struct freed **at = &pool->freed; *at && pool->reserved > keep;) {
    struct freed *freed = *at;
    if (!is_past(freed)) {
      at = &freed->next;
      continue;
    }
    *at = freed->next;
    pool->reserved -= freed->block.mapped_size;
    hip_signal_release(freed->after);
    hip_memory_free(freed->block.address);
    free(freed);
  }
}

static int reuse_locked(struct ihipMemPoolHandle_t *pool, uint64_t bytes, struct ihipStream_t *stream, struct hip_memory *result,
                        struct hip_signal **after) {
  uint64_t wanted = (bytes + HIP_PAGE_BYTES - 1) / HIP_PAGE_BYTES * HIP_PAGE_BYTES;
  (void)stream;
  for (struct freed **at = &pool->freed; *at; at = &(*at)->next) {
    struct freed *freed = *at;
    if (freed->block.mapped_size != wanted) continue;
    *at = freed->next;
    *result = freed->block;
    *after = freed->after;
    free(freed);
    return 1;
  }
  return 0;
}

static hipError_t allocate(void **result, uint64_t bytes, struct ihipMemPoolHandle_t *pool, struct ihipStream_t *stream) {
  struct hip_memory block;
  struct hip_signal *after = NULL;
  *result = NULL;
  if (!bytes) return hipSuccess;
  pthread_mutex_lock(&lock);
  int is_reused = reuse_locked(pool, bytes, stream, &block, &after);
  pthread_mutex_unlock(&lock);
  if (!is_reused) HIP_TRY(hip_memory_allocate(pool->device, HIP_MEMORY_DEVICE, bytes, 0, 0, &block));
  if (after) {
    hipError_t error = hip_stream_wait_signal(stream, after);  // by now it belonged to work of another stream, perhaps
    hip_signal_release(after);
    if (error != hipSuccess) return error;
  }
  struct renewal renewal = {bytes, pool, HIP_MEMORY_DEVICE};
  hip_memory_update(block.address, renew, &renewal);
  for (int i = 0; i < hip_device_count(); i++)
    if (pool->peers >> i & 1) hip_memory_share_with(pool->device, pool, hip_device_at(i), 1);
  pthread_mutex_lock(&lock);
  if (!is_reused) pool->reserved += block.mapped_size;
  pool->used += block.mapped_size;
  if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  pthread_mutex_unlock(&lock);
  *result = (void *)block.address;
  return hipSuccess;
}

// The block is not a block for pointer queries any more, but its pages stay until `after` is complete.
static hipError_t put_back(const struct hip_memory *block, struct hip_signal *after) {
  struct ihipMemPoolHandle_t *pool = block->pool;
  struct freed *freed = calloc(1, sizeof *freed);
  if (!freed) return hipErrorOutOfMemory;
  *freed = (struct freed){NULL, *block, after};
  struct renewal none = {0, NULL, HIP_MEMORY_INTERNAL};
  hip_memory_update(block->address, renew, &none);
  pthread_mutex_lock(&lock);
  pool->used -= block->mapped_size;
  freed->next = pool->freed;
  pool->freed = freed;
  pthread_mutex_unlock(&lock);
  return hipSuccess;
}

hipError_t hip_pool_free_now(const struct hip_memory *block) {
  struct ihipMemPoolHandle_t *pool = block->pool;
  HIP_TRY(put_back(block, NULL));
  pthread_mutex_lock(&lock);
  trim_locked(pool, pool->release_threshold);
  pthread_mutex_unlock(&lock);
  return hipSuccess;
}

hipError_t hip_pool_execute_free(struct ihipStream_t *stream, const struct hip_stream_memory *memory) {
  struct hip_memory block;
  if (!hip_memory_find((const void *)memory->address, &block) || block.address != memory->address) return hipErrorInvalidValue;
  if (!block.pool) {
    HIP_TRY(hip_stream_synchronize(stream));
    return hip_memory_free(block.address);
  }
  return put_back(&block, hip_stream_marker(stream));
}

void hip_pools_trim(struct hip_device *device) {
  pthread_mutex_lock(&lock);
  for (struct ihipMemPoolHandle_t *pool = pools; pool; pool = pool->next)
    if (pool->device == device) trim_locked(pool, pool->release_threshold);
  pthread_mutex_unlock(&lock);
}

// ---- exported ----

static hipError_t allocate_on(void **result, size_t bytes, struct ihipMemPoolHandle_t *pool, hipStream_t handle) {
  struct ihipStream_t *stream;
  if (!result) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (!pool) pool = current_pool(stream->device);
  HIP_TRY(allocate(result, bytes, pool, stream));
  if (!stream->capture) return hipSuccess;
  struct hip_operation operation = {.kind = HIP_OPERATION_ALLOCATE, .memory = {(uint64_t)*result, bytes, pool}};
  return hip_enqueue(stream, &operation);
}

HIP_API hipError_t hipMallocAsync(void **result, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(allocate_on(result, bytes, NULL, stream));
}

HIP_API hipError_t hipMallocFromPoolAsync(void **result, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(is_pool(pool) ? allocate_on(result, bytes, pool, stream) : hipErrorInvalidValue);
}

HIP_API hipError_t hipFreeAsync(void *pointer, hipStream_t handle) {
  HIP_ENTER();
  struct ihipStream_t *stream;
  struct hip_memory block;
  if (!pointer || !hip_memory_find(pointer, &block) || block.address != (uint64_t)pointer ||
      (block.kind != HIP_MEMORY_DEVICE && !(block.flags & HIP_MEMORY_OF_OTHER_POOL)))
    HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = hip_stream_of(handle, &stream);
  if (error != hipSuccess) HIP_RETURN(error);
  struct hip_operation operation = {.kind = HIP_OPERATION_FREE, .memory = {block.address, block.size, block.pool}};
  HIP_RETURN(hip_enqueue(stream, &operation));
}

HIP_API hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int index) {
  HIP_ENTER();
  if (!pool) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  *pool = hip_default_pool(hip_device_at(index));
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int index) {
  HIP_ENTER();
  if (!pool) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  *pool = current_pool(hip_device_at(index));
  return hipSuccess;
}

HIP_API hipError_t hipDeviceSetMemPool(int index, hipMemPool_t pool) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!is_pool(pool) || pool->device != hip_device_at(index)) HIP_RETURN(hipErrorInvalidValue);
  hip_default_pool(hip_device_at(index));
  hip_device_at(index)->pool = pool;
  return hipSuccess;
}

HIP_API hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties) {
  HIP_ENTER();
  if (!pool || !properties || properties->allocType != hipMemAllocationTypePinned || properties->location.type != hipMemLocationTypeDevice)
    HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(properties->location.id)) HIP_RETURN(hipErrorInvalidDevice);
  pthread_mutex_lock(&lock);
  *pool = create(hip_device_at(properties->location.id), 0);
  pthread_mutex_unlock(&lock);
  HIP_RETURN(*pool ? hipSuccess : hipErrorOutOfMemory);
}

// ---- pools of other processes: a file names the device; blocks are shared one by one ----

struct shared_pool { uint32_t magic, device; };
enum { POOL_MAGIC = 0x4c4f4f50 };

HIP_API hipError_t hipMemPoolExportToShareableHandle(void *handle, hipMemPool_t pool, hipMemAllocationHandleType type, unsigned flags) {
  HIP_ENTER();
  if (!handle || !is_pool(pool) || type != hipMemHandleTypePosixFileDescriptor || flags) HIP_RETURN(hipErrorInvalidValue);
  struct shared_pool content = {POOL_MAGIC, pool->device->gpu_id};
  int file = memfd_create("pool", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &content, sizeof content, 0) != (ssize_t)sizeof content) {
    if (file >= 0) close(file);
    HIP_RETURN(hipErrorOutOfMemory);
  }
  *(int *)handle = file;
  return hipSuccess;
}

// The descriptor is an argument in the place of a pointer, as in CUDA.
HIP_API hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *pool, void *handle, hipMemAllocationHandleType type, unsigned flags) {
  HIP_ENTER();
  struct shared_pool content;
  if (!pool || type != hipMemHandleTypePosixFileDescriptor || flags) HIP_RETURN(hipErrorInvalidValue);
  if (pread((int)(intptr_t)handle, &content, sizeof content, 0) != (ssize_t)sizeof content || content.magic != POOL_MAGIC)
    HIP_RETURN(hipErrorInvalidValue);
  struct hip_device *device = NULL;
  for (int i = 0; i < hip_device_count() && !device; i++)
    if (hip_device_at(i)->gpu_id == content.device) device = hip_device_at(i);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  pthread_mutex_lock(&lock);
  *pool = create(device, 0);
  pthread_mutex_unlock(&lock);
  HIP_RETURN(*pool ? hipSuccess : hipErrorOutOfMemory);
}

HIP_API hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  HIP_ENTER();
  if (!is_pool(pool) || pool->is_default) HIP_RETURN(hipErrorInvalidValue);
  hip_device_synchronize(pool->device);
  pthread_mutex_lock(&lock);
  if (pool->device->pool == pool) pool->device->pool = pool->device->default_pool;
  trim_locked(pool, 0);
  struct ihipMemPoolHandle_t **at = &pools;
  while (*at != pool) at = &(*at)->next;
  *at = pool->next;
  int is_unused = !pool->used;    // blocks that are still allocated refer to it
  pthread_mutex_unlock(&lock);
  if (is_unused) free(pool);
  return hipSuccess;
}

HIP_API hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t keep) {
  HIP_ENTER();
  if (!is_pool(pool)) HIP_RETURN(hipErrorInvalidValue);
  pthread_mutex_lock(&lock);
  trim_locked(pool, keep);
  pthread_mutex_unlock(&lock);
  return hipSuccess;
}

HIP_API hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  HIP_ENTER();
  if (!is_pool(pool) || !value) HIP_RETURN(hipErrorInvalidValue);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: pool->reuses_events = *(int *)value; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: pool->reuses_opportunistically = *(int *)value; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: pool->reuses_internally = *(int *)value; return hipSuccess;
    case hipMemPoolAttrReleaseThreshold: pool->release_threshold = *(uint64_t *)value; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh: case hipMemPoolAttrUsedMemHigh:
      if (*(uint64_t *)value) HIP_RETURN(hipErrorInvalidValue);
      if (attribute == hipMemPoolAttrReservedMemHigh) pool->reserved_high = pool->reserved;
      else pool->used_high = pool->used;
      return hipSuccess;
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

HIP_API hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  HIP_ENTER();
  if (!is_pool(pool) || !value) HIP_RETURN(hipErrorInvalidValue);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: *(int *)value = pool->reuses_events; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: *(int *)value = pool->reuses_opportunistically; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: *(int *)value = pool->reuses_internally; return hipSuccess;
    case hipMemPoolAttrReleaseThreshold: *(uint64_t *)value = pool->release_threshold; return hipSuccess;
    case hipMemPoolAttrReservedMemCurrent: *(uint64_t *)value = pool->reserved; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh: *(uint64_t *)value = pool->reserved_high; return hipSuccess;
    case hipMemPoolAttrUsedMemCurrent: *(uint64_t *)value = pool->used; return hipSuccess;
    case hipMemPoolAttrUsedMemHigh: *(uint64_t *)value = pool->used_high; return hipSuccess;
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

int hip_pool_is_shared_with(const struct ihipMemPoolHandle_t *pool, const struct hip_device *device) { return pool->peers >> device->index & 1; }

static void share(struct ihipMemPoolHandle_t *pool, int index, int allows) {
  struct hip_device *device = hip_device_at(index);
  if (device == pool->device) return;
  pool->peers = allows ? pool->peers | 1u << index : pool->peers & ~(1u << index);
  hip_memory_share_with(pool->device, pool, device, allows || device->peers >> pool->device->index & 1);
}

HIP_API hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *list, size_t count) {
  HIP_ENTER();
  if (!is_pool(pool) || (count && !list)) HIP_RETURN(hipErrorInvalidValue);
  for (size_t i = 0; i < count; i++)
    if (list[i].location.type != hipMemLocationTypeDevice || !hip_device_at(list[i].location.id)) HIP_RETURN(hipErrorInvalidValue);
  for (size_t i = 0; i < count; i++) share(pool, list[i].location.id, list[i].flags == hipMemAccessFlagsProtReadWrite);
  return hipSuccess;
}

HIP_API hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool, hipMemLocation *location) {
  HIP_ENTER();
  if (!is_pool(pool) || !flags || !location || !hip_device_at(location->id)) HIP_RETURN(hipErrorInvalidValue);
  struct hip_device *device = hip_device_at(location->id);
  *flags = device == pool->device || hip_pool_is_shared_with(pool, device) ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
  return hipSuccess;
}

void hip_pools_forget(void) {
  pthread_mutex_init(&lock, NULL);
  pools = NULL;
}
