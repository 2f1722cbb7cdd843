// Blocks of memory: allocation through KFD, and which block contains a pointer. The address of a block is the same for the host and all GPUs.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "tools.h"

enum { FIRST_CAPACITY = 256, LARGE_PAGE_BYTES = 2 << 20 };
static const uint64_t LOW_ADDRESSES = UINT64_C(1) << 40;
static struct hip_memory *blocks;  // sorted by address; pieces of modules are inside other blocks and directly follow them
static uint64_t block_count, capacity, next_id = 1;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static uint64_t pages(uint64_t bytes) { return (bytes + HIP_PAGE_BYTES - 1) / HIP_PAGE_BYTES * HIP_PAGE_BYTES; }

// ---- the table ----

// Index of the first block that begins after `address`.
static uint64_t after(uint64_t address) {
  uint64_t low = 0, high = block_count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (blocks[middle].address > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

static hipError_t add(const struct hip_memory *block) {
  pthread_rwlock_wrlock(&lock);
  if (block_count == capacity) {
    uint64_t larger = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct hip_memory *moved = realloc(blocks, larger * sizeof *blocks);
    if (!moved) {
      pthread_rwlock_unlock(&lock);
      return hipErrorOutOfMemory;
    }
    blocks = moved;
    capacity = larger;
  }
  uint64_t at = after(block->address);
  memmove(blocks + at + 1, blocks + at, (block_count - at) * sizeof *blocks);
  blocks[at] = *block;
  blocks[at].id = next_id++;
  block_count++;
  pthread_rwlock_unlock(&lock);
  return hipSuccess;
}

// Index of the innermost block that contains `address`, or block_count.
static uint64_t containing(uint64_t address) {
  for (uint64_t at = after(address); at-- > 0;) {
    const struct hip_memory *block = &blocks[at];
    uint64_t size = block->size ? block->size : 1;
    if (address - block->address < size) return at;
    if (!block->is_symbol) break;  // pieces may be followed by the rest of the block around them
  }
  return block_count;
}

int hip_memory_find(const void *address, struct hip_memory *result) {
  pthread_rwlock_rdlock(&lock);
  uint64_t at = containing((uint64_t)address);
  int found = at < block_count;
  if (found && result) *result = blocks[at];
  pthread_rwlock_unlock(&lock);
  return found;
}

static int take_out(uint64_t address, int is_symbol, struct hip_memory *result) {
  pthread_rwlock_wrlock(&lock);
  uint64_t at = after(address);
  int found = 0;
  for (; !found && at > 0 && blocks[at - 1].address == address; at--) found = blocks[at - 1].is_symbol == is_symbol;
  if (found) {
    *result = blocks[at];
    memmove(blocks + at, blocks + at + 1, (block_count - at - 1) * sizeof *blocks);
    block_count--;
  }
  pthread_rwlock_unlock(&lock);
  return found;
}

int hip_memory_update(uint64_t address, void (*change)(struct hip_memory *block, const void *data), const void *data) {
  pthread_rwlock_wrlock(&lock);
  uint64_t at = containing(address);
  int found = at < block_count;
  if (found) change(&blocks[at], data);
  pthread_rwlock_unlock(&lock);
  return found;
}

hipError_t hip_memory_register_symbol(uint64_t address, uint64_t bytes, enum hip_memory_kind kind, struct hip_device *device) {
  struct hip_memory block = {.address = address, .size = bytes, .mapped_size = bytes, .kind = kind, .device = device, .is_symbol = 1};
  return add(&block);
}

void hip_memory_forget(uint64_t address) {
  struct hip_memory unused;
  take_out(address, 1, &unused);
}

// ---- addresses ----

uint64_t hip_addresses_reserve(uint64_t bytes, uint64_t alignment) {
  uint64_t whole = bytes + (alignment > HIP_PAGE_BYTES ? alignment : 0);
  static _Atomic uint64_t next = LOW_ADDRESSES;
  // A replay reserves the addresses of a capture: none that the loader of another process gives to libraries.
  uint64_t hint = hip_tools_are_loaded() ? atomic_fetch_add(&next, (whole + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES) : 0;
  void *found = mmap((void *)hint, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return 0;
  uint64_t begin = (uint64_t)found, address = alignment > HIP_PAGE_BYTES ? (begin + alignment - 1) / alignment * alignment : begin;
  if (address > begin) munmap(found, address - begin);
  if (begin + whole > address + bytes) munmap((void *)(address + bytes), begin + whole - address - bytes);
  return address;
}

// ---- KFD ----

static uint32_t kfd_flags(enum hip_memory_kind kind) {
  uint32_t common = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
  if (kind == HIP_MEMORY_DEVICE) return common | KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
  if (kind == HIP_MEMORY_REGISTERED) return common | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
  return common | KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
}

static int map_to(uint64_t handle, uint32_t gpu_id) {
  struct kfd_ioctl_map_memory_to_gpu_args args = {.handle = handle, .device_ids_array_ptr = (uint64_t)&gpu_id, .n_devices = 1};
  return hip_kfd(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
}

static void unmap_from(uint64_t handle, uint32_t gpu_id) {
  struct kfd_ioctl_unmap_memory_from_gpu_args args = {.handle = handle, .device_ids_array_ptr = (uint64_t)&gpu_id, .n_devices = 1};
  hip_kfd(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
}

static int is_local(enum hip_memory_kind kind) { return kind == HIP_MEMORY_DEVICE || kind == HIP_MEMORY_IPC; }

// Memory of the host is accessible to all devices, memory of a device to itself and its peers.
static int may_access(const struct hip_device *device, enum hip_memory_kind kind, const struct hip_device *owner) {
  return !is_local(kind) || device == owner || device->peers >> owner->index & 1;
}

static hipError_t map_block(uint64_t handle, enum hip_memory_kind kind, const struct hip_device *owner) {
  for (int i = 0; i < hip_device_count(); i++)
    if (may_access(hip_device_at(i), kind, owner) && map_to(handle, hip_device_at(i)->gpu_id)) return hipErrorOutOfMemory;
  return hipSuccess;
}

static void unmap_and_free(uint64_t handle) {
  for (int i = 0; i < hip_device_count(); i++) unmap_from(handle, hip_device_at(i)->gpu_id);
  struct kfd_ioctl_free_memory_of_gpu_args freed = {handle};
  hip_kfd(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed);
}

int hip_memory_is_accessible(const struct hip_device *device, uint64_t address) {
  struct hip_memory block;
  return !hip_memory_find((const void *)address, &block) || may_access(device, block.kind, block.device) ||
         (block.pool && hip_pool_is_shared_with(block.pool, device));
}

void hip_memory_share_with(const struct hip_device *owner, const struct ihipMemPoolHandle_t *pool, const struct hip_device *device, int allows) {
  pthread_rwlock_rdlock(&lock);
  for (uint64_t i = 0; i < block_count; i++) {
    const struct hip_memory *block = &blocks[i];
    if (!is_local(block->kind) || block->is_symbol || block->device != owner || (pool && block->pool != pool)) continue;
    if (allows) map_to(block->handle, device->gpu_id);
    else unmap_from(block->handle, device->gpu_id);
  }
  pthread_rwlock_unlock(&lock);
}

hipError_t hip_memory_allocate(struct hip_device *device, enum hip_memory_kind kind, uint64_t bytes, uint64_t alignment, unsigned flags,
                               struct hip_memory *result) {
  uint64_t size = pages(bytes);
  if (!size || size < bytes) return hipErrorOutOfMemory;
  if (!alignment) alignment = size >= LARGE_PAGE_BYTES ? LARGE_PAGE_BYTES : HIP_PAGE_BYTES;
  struct hip_memory block = {.size = bytes, .mapped_size = size, .kind = kind, .device = device, .flags = flags};
  block.prefetched = hipInvalidDeviceId;
  block.address = hip_addresses_reserve(size, alignment);
  if (!block.address) return hipErrorOutOfMemory;
  struct kfd_ioctl_alloc_memory_of_gpu_args args = {.va_addr = block.address, .size = size, .gpu_id = device->gpu_id, .flags = kfd_flags(kind)};
  hipError_t error = hip_kfd(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) ? hipErrorOutOfMemory : hipSuccess;
  block.handle = args.handle;
  if (error == hipSuccess) {
    void *mapped = mmap((void *)block.address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device->render_fd, (off_t)args.mmap_offset);
    error = mapped == MAP_FAILED ? hipErrorOutOfMemory : map_block(block.handle, kind, device);
    if (error == hipSuccess) error = add(&block);
    if (error != hipSuccess) unmap_and_free(block.handle);
  }
  if (error != hipSuccess) {
    munmap((void *)block.address, size);
    return error;
  }
  if (kind == HIP_MEMORY_INTERNAL || kind == HIP_MEMORY_HOST) madvise((void *)block.address, size, MADV_DONTFORK);
  hip_tools_allocated(&block);
  *result = block;
  return hipSuccess;
}

hipError_t hip_memory_free(uint64_t address) {
  struct hip_memory block;
  if (!take_out(address, 0, &block)) return hipErrorInvalidValue;
  hip_tools_freeing(&block);
  if (block.handle) unmap_and_free(block.handle);
  if (block.kind != HIP_MEMORY_REGISTERED) munmap((void *)block.address, block.mapped_size);
  return hipSuccess;
}

// ---- the host's own memory ----

int hip_pin(const void *address, uint64_t bytes, uint64_t *handle) {
  uint64_t begin = (uint64_t)address / HIP_PAGE_BYTES * HIP_PAGE_BYTES, end = pages((uint64_t)address + bytes);
  struct kfd_ioctl_alloc_memory_of_gpu_args args = {
      .va_addr = begin, .mmap_offset = begin, .size = end - begin, .gpu_id = hip_device_at(0)->gpu_id, .flags = kfd_flags(HIP_MEMORY_REGISTERED)};
  int error = hip_kfd(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
  if (error) return error;
  *handle = args.handle;
  if (map_block(args.handle, HIP_MEMORY_REGISTERED, NULL) == hipSuccess) return 0;
  hip_unpin(args.handle);
  return ENOMEM;
}

void hip_unpin(uint64_t handle) { unmap_and_free(handle); }

hipError_t hip_memory_register_host(void *address, uint64_t bytes, unsigned flags) {
  struct hip_memory block = {.address = (uint64_t)address, .size = bytes, .mapped_size = bytes, .kind = HIP_MEMORY_REGISTERED,
                             .device = hip_current_device(), .flags = flags, .host_address = address};
  int error = hip_pin(address, bytes, &block.handle);
  if (error) return error == EFAULT ? hipErrorInvalidValue : hipErrorOutOfMemory;
  hipError_t added = add(&block);
  if (added != hipSuccess) hip_unpin(block.handle);
  else hip_tools_allocated(&block);
  return added;
}

// ---- memory of other processes ----

// Argument of the ioctls of KFD's IPC, which the kernel's headers do not contain.
struct ipc_export { uint64_t handle; uint32_t share_handle[4], gpu_id, flags; };
struct ipc_import { uint64_t handle, va_addr, mmap_offset; uint32_t share_handle[4], gpu_id, flags; };
#define IPC_IMPORT _IOWR('K', 0x80, struct ipc_import)
#define IPC_EXPORT _IOWR('K', 0x81, struct ipc_export)

hipError_t hip_memory_share(const struct hip_memory *block, uint32_t share[4]) {
  struct ipc_export args = {.handle = block->handle, .gpu_id = block->device->gpu_id};
  if (!block->handle || hip_kfd(IPC_EXPORT, &args)) return hipErrorInvalidValue;
  memcpy(share, args.share_handle, sizeof args.share_handle);
  return hipSuccess;
}

hipError_t hip_memory_open_shared(const uint32_t share[4], struct hip_device *device, uint64_t bytes, struct hip_memory *result) {
  struct hip_memory block = {.size = bytes, .mapped_size = pages(bytes), .kind = HIP_MEMORY_IPC, .device = device};
  block.address = hip_addresses_reserve(block.mapped_size, block.mapped_size >= LARGE_PAGE_BYTES ? LARGE_PAGE_BYTES : HIP_PAGE_BYTES);
  if (!block.address) return hipErrorOutOfMemory;
  struct ipc_import args = {.va_addr = block.address, .gpu_id = device->gpu_id};
  memcpy(args.share_handle, share, sizeof args.share_handle);
  hipError_t error = hip_kfd(IPC_IMPORT, &args) ? hipErrorInvalidValue : hipSuccess;
  block.handle = args.handle;
  if (error == hipSuccess) {
    error = map_block(block.handle, block.kind, device);
    if (error == hipSuccess) error = add(&block);
    if (error != hipSuccess) unmap_and_free(block.handle);
  }
  if (error != hipSuccess) {
    munmap((void *)block.address, block.mapped_size);
    return error;
  }
  hip_tools_allocated(&block);
  *result = block;
  return hipSuccess;
}

int hip_memory_is_own_share(const uint32_t share[4]) { return share[0] == (uint32_t)getpid(); }

void hip_memory_free_of(struct hip_device *device) {
  for (;;) {
    uint64_t address = 0;
    pthread_rwlock_rdlock(&lock);
    for (uint64_t i = 0; i < block_count && !address; i++)
      if (blocks[i].device == device && blocks[i].kind == HIP_MEMORY_DEVICE && !blocks[i].is_symbol && !blocks[i].pool &&
          !(blocks[i].flags & HIP_MEMORY_OF_MODULE))
        address = blocks[i].address;
    pthread_rwlock_unlock(&lock);
    if (!address) return;
    hip_memory_free(address);
  }
}

void hip_memory_add_virtual(uint64_t address, uint64_t bytes, struct hip_device *device) {
  struct hip_memory block = {.address = address, .size = bytes, .mapped_size = bytes, .kind = HIP_MEMORY_VIRTUAL, .device = device};
  if (add(&block) == hipSuccess) hip_tools_allocated(&block);
}

void hip_memory_remove_virtual(uint64_t address) {
  struct hip_memory block;
  if (take_out(address, 0, &block)) hip_tools_freeing(&block);
}

void hip_memory_forget_all(void) {
  pthread_rwlock_init(&lock, NULL);
  blocks = NULL;                  // not freed: another thread of the parent may have been moving it
  block_count = capacity = 0;
}
