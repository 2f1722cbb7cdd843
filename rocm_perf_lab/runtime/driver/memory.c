// Blocks of memory by handle: the ioctls ALLOC, FREE, MAP and UNMAP of KFD.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include "system.h"

enum { FIRST_CAPACITY = 256, HANDLE_SHIFT = 32 };
enum {
  KINDS = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR |
          KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP
};
struct block {
  struct drv_storage *storage;    // of user memory: only what it counts for in the limits
  uint64_t address, size;
  uint32_t gpu, mapped;           // mapped: one bit per GPU
  uint32_t is_user, needs_mapping;
  uint32_t is_used, next_free;
};
static struct block *blocks;
static uint32_t capacity, first_free, last_free;  // 0: none; handles are reused as late as possible

static uint32_t slot_of(uint64_t handle) {
  uint32_t slot = (uint32_t)handle;
  int gpu = drv_gpu_index((uint32_t)(handle >> HANDLE_SHIFT));
  return gpu >= 0 && slot && slot < capacity && blocks[slot].is_used && blocks[slot].gpu == (uint32_t)gpu ? slot : 0;
}

static void add_free(uint32_t slot) {
  blocks[slot].is_used = blocks[slot].next_free = 0;
  if (last_free)
    blocks[last_free].next_free = slot;
  else
    first_free = slot;
  last_free = slot;
}

static uint32_t take_slot(void) {
  if (!first_free) {
    uint32_t larger = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct block *moved = realloc(blocks, larger * sizeof *blocks);
    if (!moved)
      return 0;
    blocks = moved;
    uint32_t from = capacity ? capacity : 1;
    capacity = larger;
    for (uint32_t i = from; i < larger; i++)
      add_free(i);
  }
  uint32_t slot = first_free;
  first_free = blocks[slot].next_free;
  if (!first_free)
    last_free = 0;
  return slot;
}

// Stores a block and returns its handle; 0: no memory.
static uint64_t keep(const struct block *block) {
  pthread_mutex_lock(&drv_memory_lock);
  uint32_t slot = take_slot();
  if (slot) {
    blocks[slot] = *block;
    blocks[slot].is_used = 1;
  }
  pthread_mutex_unlock(&drv_memory_lock);
  return slot ? (uint64_t)drv_settings()->gpus[block->gpu].gpu_id << HANDLE_SHIFT | slot : 0;
}

static int check_request(const struct kfd_ioctl_alloc_memory_of_gpu_args *args) {
  uint32_t kind = args->flags & KINDS;
  if (!args->size || !kind || (kind & (kind - 1)) || args->va_addr % RPL_PAGE_BYTES || args->size > RPL_FILE_BYTES)
    return EINVAL;
  if (kind == KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL && args->size != RPL_DOORBELL_BYTES)
    return EINVAL;
  if (kind == KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP && args->size != RPL_PAGE_BYTES)
    return EINVAL;
  if (kind != KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
    return 0;
  if (!args->mmap_offset)
    return EINVAL;
  return drv_is_mapped(args->mmap_offset, args->mmap_offset + args->size) ? 0 : EFAULT;
}

int drv_memory_allocate(struct kfd_ioctl_alloc_memory_of_gpu_args *args) {
  int gpu = drv_gpu_index(args->gpu_id), error = gpu < 0 ? EINVAL : check_request(args);
  if (error)
    return error;
  int is_user = (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0;
  uint64_t size = (args->size + RPL_PAGE_BYTES - 1) / RPL_PAGE_BYTES * RPL_PAGE_BYTES;
  struct drv_storage *storage = drv_storage_new((uint32_t)gpu, args->flags, size, &error);
  if (!storage)
    return error;
  if (is_user && args->va_addr && args->va_addr != args->mmap_offset)
    error = drv_user_alias(args->mmap_offset, size, args->va_addr);
  int is_hidden = (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !(args->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
  struct block block = {storage, args->va_addr, size, (uint32_t)gpu, 0, (uint32_t)is_user, (uint32_t)is_hidden, 0, 0};
  if (error || !(args->handle = keep(&block))) {
    drv_storage_put(storage);
    return error ? error : ENOMEM;
  }
  if (!is_user)
    args->mmap_offset = storage->offset;
  drv_log(2, "alloc %#llx+%#llx flags %#x handle %#llx", args->va_addr, args->size, args->flags, args->handle);
  return 0;
}

int drv_memory_adopt(struct drv_storage *storage, uint32_t gpu, uint64_t address, uint64_t *handle) {
  struct block block = {storage, address, storage->size, gpu, 0, 0, 1, 0, 0};
  *handle = address % RPL_PAGE_BYTES ? 0 : keep(&block);
  if (*handle)
    return 0;
  drv_storage_put(storage);
  return address % RPL_PAGE_BYTES ? EINVAL : ENOMEM;
}

int drv_memory_free(uint64_t handle) {
  if (drv_event_page_is(handle))
    return EPERM;
  pthread_mutex_lock(&drv_memory_lock);
  uint32_t slot = slot_of(handle);
  struct drv_storage *storage = NULL;
  int error = !slot ? EINVAL : blocks[slot].mapped ? EBUSY : 0;
  if (!error) {
    storage = blocks[slot].storage;
    add_free(slot);
  }
  pthread_mutex_unlock(&drv_memory_lock);
  drv_storage_put(storage);
  return error;
}

static struct drv_place place_of(const struct block *block) {
  return (struct drv_place){block->address, block->size, block->is_user ? NULL : block->storage, 0, block->gpu, block->mapped, 0};
}

static int map_block(struct block *block, uint32_t gpu) {
  struct drv_place place = place_of(block);
  int error = 0;
  if (!block->mapped && block->address) {
    if (block->needs_mapping && !drv_storage_map(block->storage, 0, block->size, block->address))
      return ENOMEM;
    place.gpus = 1u << gpu;
    error = drv_places_add(place);
  } else if (block->address) {
    error = drv_places_allow(&place, 1u << gpu);
  }
  if (!error)
    block->mapped |= 1u << gpu;
  return error;
}

static int unmap_block(struct block *block, uint32_t gpu) {
  if (!(block->mapped & 1u << gpu))
    return EINVAL;
  block->mapped &= ~(1u << gpu);
  struct drv_place place = place_of(block);
  if (block->address && block->mapped)
    drv_places_deny(&place, 1u << gpu);
  else if (block->address)
    drv_places_remove(&place);
  return 0;
}

struct targets { uint64_t handle; const uint32_t *gpu_ids; uint32_t count; uint32_t *done; };

static int for_each_gpu(struct targets targets, int (*action)(struct block *, uint32_t)) {
  if (drv_gpu_index((uint32_t)(targets.handle >> HANDLE_SHIFT)) < 0 || !targets.count || *targets.done > targets.count)
    return EINVAL;
  if (!targets.gpu_ids)
    return EFAULT;
  pthread_mutex_lock(&drv_memory_lock);
  uint32_t slot = slot_of(targets.handle);
  int error = slot ? 0 : ENOMEM;
  for (uint32_t i = *targets.done; !error && i < targets.count; i++) {
    int gpu = drv_gpu_index(targets.gpu_ids[i]);
    error = gpu < 0 ? EINVAL : action(&blocks[slot], (uint32_t)gpu);
    if (!error)
      *targets.done = i + 1;
  }
  pthread_mutex_unlock(&drv_memory_lock);
  return error;
}

int drv_memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args) {
  const uint32_t *gpu_ids = (const uint32_t *)args->device_ids_array_ptr;
  return for_each_gpu((struct targets){args->handle, gpu_ids, args->n_devices, &args->n_success}, map_block);
}

int drv_memory_unmap(struct kfd_ioctl_unmap_memory_from_gpu_args *args) {
  const uint32_t *gpu_ids = (const uint32_t *)args->device_ids_array_ptr;
  return for_each_gpu((struct targets){args->handle, gpu_ids, args->n_devices, &args->n_success}, unmap_block);
}

struct drv_storage *drv_memory_storage(uint64_t handle) {
  pthread_mutex_lock(&drv_memory_lock);
  uint32_t slot = slot_of(handle);
  struct drv_storage *storage = slot && !blocks[slot].is_user ? blocks[slot].storage : NULL;
  if (storage)
    drv_storage_hold(storage);
  pthread_mutex_unlock(&drv_memory_lock);
  return storage;
}

void drv_memory_after_fork_in_child(void) {
  pthread_mutex_init(&drv_memory_lock, NULL);
  capacity = first_free = last_free = 0;
  blocks = NULL;                  // not freed: another thread may have been moving it
  drv_places_forget();
  drv_ranges_forget();
  drv_storage_forget();
  drv_svm_forget();
}
