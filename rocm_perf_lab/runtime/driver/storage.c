// Pages of device memory in the memory file: limits, references, and when they are given back.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "system.h"

enum { BUCKETS = 4096, HOST_RESERVE_SHIFT = 6 /* 1/64 of the host's memory is not for GPUs, as in KFD */ };
enum { FIXED = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP };
static struct drv_storage *buckets[BUCKETS];
static struct drv_storage *idle;                 // no references in this process, but dmabufs
static uint64_t next_offset = RPL_FIRST_BLOCK;
static uint64_t vram_bytes[RPL_MAX_GPUS], system_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t bucket_of(uint64_t offset) { return (offset / RPL_PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15)) >> 52; }

static void release(struct drv_storage *storage) {
  if (storage->file >= 0) {
    close(storage->file);
    free(storage);
    return;
  }
  for (struct drv_storage **at = &buckets[bucket_of(storage->offset)]; *at; at = &(*at)->next)
    if (*at == storage) {
      *at = storage->next;
      break;
    }
  if (!(storage->flags & FIXED)) {
    drv_share_forget_storage(storage);
    fallocate(drv_memory_file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)storage->offset, (off_t)storage->size);
    *(storage->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? &vram_bytes[storage->gpu] : &system_bytes) -= storage->size;
  }
  free(storage);
}

static void release_idle(void) {
  for (struct drv_storage **at = &idle; *at;) {
    struct drv_storage *storage = *at;
    if (storage->references || !drv_share_is_held(storage)) {
      *at = storage->next_idle;
      if (!storage->references)
        release(storage);
    } else {
      at = &storage->next_idle;
    }
  }
}

static uint64_t host_limit(void) {
  uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  return bytes - (bytes >> HOST_RESERVE_SHIFT);
}

static int fits(uint32_t gpu, uint32_t flags, uint64_t size) {
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) {
    uint64_t limit = drv_settings()->gpus[gpu].memory_bytes;
    return size <= limit && vram_bytes[gpu] <= limit - size;
  }
  uint64_t limit = host_limit();
  return size <= limit && system_bytes <= limit - size;
}

static uint64_t place_in_file(uint32_t gpu, uint32_t flags, uint64_t size) {
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
    return RPL_DOORBELL_OFFSET + gpu * (uint64_t)RPL_DOORBELL_BYTES;
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
    return RPL_MMIO_OFFSET + gpu * (uint64_t)RPL_PAGE_BYTES;
  // Offsets are never used again: the file is larger than all that a process can allocate.
  uint64_t unit = size >= RPL_LARGE_PAGE_BYTES ? RPL_LARGE_PAGE_BYTES : RPL_PAGE_BYTES;
  uint64_t offset = (next_offset + unit - 1) / unit * unit;
  next_offset = offset + size;
  return offset;
}

static void account(struct drv_storage *storage) {
  if (storage->flags & FIXED)
    return;
  *(storage->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? &vram_bytes[storage->gpu] : &system_bytes) += storage->size;
  uint64_t bucket = bucket_of(storage->offset);
  storage->next = buckets[bucket];
  buckets[bucket] = storage;
}

struct drv_storage *drv_storage_new(uint32_t gpu, uint32_t flags, uint64_t size, int *error) {
  struct drv_storage *storage = calloc(1, sizeof *storage);
  *error = ENOMEM;
  if (!storage)
    return NULL;
  pthread_mutex_lock(&lock);
  if (idle)
    release_idle();
  int has_room = (flags & FIXED) || fits(gpu, flags, size);
  if (has_room) {
    *storage = (struct drv_storage){
        .offset = place_in_file(gpu, flags, size), .size = size, .gpu = gpu, .flags = flags, .file = -1, .references = 1};
    account(storage);
    *error = 0;
  }
  pthread_mutex_unlock(&lock);
  if (!has_room) {
    free(storage);
    return NULL;
  }
  return storage;
}

struct drv_storage *drv_storage_foreign(int file, uint64_t offset, uint64_t size, uint32_t gpu, uint32_t flags) {
  struct drv_storage *storage = calloc(1, sizeof *storage);
  if (!storage) {
    close(file);
    return NULL;
  }
  *storage = (struct drv_storage){.offset = offset, .size = size, .gpu = gpu, .flags = flags, .file = file, .references = 1};
  return storage;
}

void drv_storage_hold(struct drv_storage *storage) {
  pthread_mutex_lock(&lock);
  storage->references++;
  pthread_mutex_unlock(&lock);
}

void drv_storage_put(struct drv_storage *storage) {
  if (!storage)
    return;
  pthread_mutex_lock(&lock);
  if (--storage->references == 0) {
    if (storage->file < 0 && storage->exported && drv_share_is_held(storage)) {
      storage->next_idle = idle;
      idle = storage;
    } else {
      release(storage);
    }
  }
  if (idle)
    release_idle();
  pthread_mutex_unlock(&lock);
}

struct drv_storage *drv_storage_at(uint64_t offset) {
  pthread_mutex_lock(&lock);
  struct drv_storage *storage = buckets[bucket_of(offset)];
  while (storage && storage->offset != offset)
    storage = storage->next;
  if (storage && storage->references++ == 0) {
    struct drv_storage **at = &idle;
    while (*at != storage)
      at = &(*at)->next_idle;
    *at = storage->next_idle;
  }
  pthread_mutex_unlock(&lock);
  return storage;
}

void *drv_storage_map(const struct drv_storage *storage, uint64_t offset, uint64_t size, uint64_t at) {
  void *mapped = drv_map_file(storage->file < 0 ? drv_memory_file() : storage->file, storage->offset + offset, size, at);
  // drv_memory_before_fork() finds the mappings of our own file only.
  if (mapped && storage->file >= 0)
    madvise(mapped, size, MADV_DONTFORK);
  return mapped;
}

void drv_storage_usage(uint32_t gpu, uint64_t *vram, uint64_t *system) {
  pthread_mutex_lock(&lock);
  if (idle)
    release_idle();
  *vram = vram_bytes[gpu];
  *system = system_bytes;
  pthread_mutex_unlock(&lock);
}

void drv_storage_forget(void) {
  pthread_mutex_init(&lock, NULL);
  idle = NULL;
  system_bytes = 0;
  next_offset = RPL_FIRST_BLOCK;
  for (int i = 0; i < BUCKETS; i++)
    buckets[i] = NULL;
  for (int i = 0; i < RPL_MAX_GPUS; i++)
    vram_bytes[i] = 0;
}
