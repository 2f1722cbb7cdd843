// The host's own memory at a second address: registered memory in runtimes without the SVM API. Also what fork() does to
// mappings.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "maps.h"

// Ranges of the host's memory whose pages were moved to the memory file; fork() has to copy these.
struct moved { struct moved *next; uint64_t begin, size; struct drv_storage *storage; };
static struct moved *moved_ranges;

struct alias { uint64_t user, size, address; int error; };

static int map_at(uint64_t offset, uint64_t size, uint64_t at, int protection) {
  int file = drv_memory_file();
  return syscall(SYS_mmap, at, size, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset) == (long)at ? 0 : ENOMEM;
}

static int is_zero(const uint64_t *page) {
  for (int i = 0; i < RPL_PAGE_BYTES / 8; i++)
    if (page[i])
      return 0;
  return 1;
}

// Private pages become pages of the memory file, at the same address and with the same content.
static int move_pages(uint64_t begin, uint64_t size, int protection, uint64_t *offset) {
  int error;
  struct moved *moved = malloc(sizeof *moved);
  struct drv_storage *storage = drv_storage_new(0, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, size, &error);
  char *view = storage ? drv_storage_map(storage, 0, size, 0) : NULL;
  if (!moved || !view) {
    free(moved);
    drv_storage_put(storage);
    return ENOMEM;
  }
  for (uint64_t at = 0; at < size; at += RPL_PAGE_BYTES)
    if (!is_zero((const uint64_t *)(begin + at)))
      memcpy(view + at, (const void *)(begin + at), RPL_PAGE_BYTES);
  error = map_at(storage->offset, size, begin, protection);
  syscall(SYS_munmap, view, size);
  *offset = storage->offset;
  *moved = (struct moved){moved_ranges, begin, size, storage};
  moved_ranges = moved;
  return error;
}

static int alias_mapping(const struct drv_mapping *mapping, void *argument) {
  struct alias *alias = argument;
  uint64_t begin = mapping->begin > alias->user ? mapping->begin : alias->user;
  uint64_t end = mapping->end < alias->user + alias->size ? mapping->end : alias->user + alias->size;
  uint64_t at = alias->address + (begin - alias->user), size = end - begin;
  int protection = PROT_READ | (mapping->writable ? PROT_WRITE : 0);
  if (!mapping->readable) {
    alias->error = EFAULT;
  } else if (mapping->is_shared) {
    // An old size of 0 makes a second mapping of the same pages.
    long made = syscall(SYS_mremap, begin, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    alias->error = made == (long)at ? 0 : ENOMEM;
  } else {
    uint64_t offset = 0;
    alias->error = move_pages(begin, size, protection, &offset);
    if (!alias->error)
      alias->error = map_at(offset, size, at, protection);
  }
  return alias->error;
}

int drv_user_alias(uint64_t user, uint64_t size, uint64_t address) {
  if (user % RPL_PAGE_BYTES)
    return EINVAL;
  struct alias alias = {user, size, address, 0};
  pthread_mutex_lock(&drv_memory_lock);
  int result = drv_for_each_mapping(user, user + size, alias_mapping, &alias);
  pthread_mutex_unlock(&drv_memory_lock);
  return result < 0 ? EFAULT : alias.error;
}

static int is_moved(const struct drv_mapping *mapping) {
  for (const struct moved *moved = moved_ranges; moved; moved = moved->next)
    if (mapping->begin < moved->begin + moved->size && moved->begin < mapping->end)
      return 1;
  return 0;
}

static int exclude_from_child(const struct drv_mapping *mapping, void *unused) {
  (void)unused;
  if (mapping->is_shared && drv_device_is_memory(&mapping->file) && !is_moved(mapping))
    madvise((void *)mapping->begin, mapping->end - mapping->begin, MADV_DONTFORK);
  return 0;
}

// Device memory belongs to one process: a child does not have its mappings, as with KFD.
void drv_memory_before_fork(void) { drv_for_each_mapping(0, UINT64_MAX, exclude_from_child, NULL); }
