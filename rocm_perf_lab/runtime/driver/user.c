// The host's own memory at a second address: registered memory in runtimes without the SVM API. Also what fork() does to
// mappings.
//
// Private pages cannot be mapped twice, so they move to the memory file, at the same address and with the same content. Other
// threads may use them meanwhile: with userfaultfd(), these wait until the pages are back; without it, a store at the moment of
// the move may be lost.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "maps.h"

enum { LONGEST_COPY_SECONDS = 10, FIRST_SWEEP = 32 };
// Ranges of the host's memory whose pages were moved to the memory file; a child process gets copies of them.
struct moved { struct moved *next; uint64_t begin, size; struct drv_storage *storage; int is_mapped; };
static struct moved *moved_ranges;
static uint32_t moved_count, sweep_count = FIRST_SWEEP;
static uint32_t *has_copied;      // shared with children: futex

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

static void copy_pages(char *to, const char *from, uint64_t size) {
  for (uint64_t at = 0; at < size; at += RPL_PAGE_BYTES)
    if (!is_zero((const uint64_t *)(from + at)))
      memcpy(to + at, from + at, RPL_PAGE_BYTES);
}

// Makes threads wait that touch the range once it is empty. Returns a descriptor, which ends their waiting when it is closed.
static int hold_threads(uint64_t begin, uint64_t size) {
  // Without the flag, system calls that use the range wait as well; that needs a privilege.
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (fd < 0)
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd < 0)
    return -1;
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {begin, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (syscall(SYS_ioctl, fd, UFFDIO_API, &api) == 0 && syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &range) == 0)
    return fd;
  close(fd);
  return -1;
}

// This thread's stack and its thread-local variables must not be in the range: it would wait for itself.
static int is_used_here(uint64_t begin, uint64_t size) {
  uint64_t local = (uint64_t)__builtin_frame_address(0), own = (uint64_t)&errno;
  return local - begin < size || own - begin < size;
}

// Returns 0 if the pages moved without any thread noticing; `view` is a second mapping of the pages of the file.
static int exchange(uint64_t begin, uint64_t size, char *view, uint64_t offset, int protection) {
  int fd = is_used_here(begin, size) ? -1 : hold_threads(begin, size);
  if (fd < 0)
    return -1;
  long away = syscall(SYS_mremap, begin, size, size, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
  int is_away = away != -1;
  if (is_away) {
    mprotect((void *)away, size, PROT_READ);
    copy_pages(view, (const char *)away, size);
    // Not even an errno may be stored now; if this fails, the pages go back to where they were.
    if (map_at(offset, size, begin, protection) != 0) {
      mprotect((void *)away, size, protection);
      syscall(SYS_mremap, away, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin);
      is_away = 0;
    } else {
      syscall(SYS_munmap, away, size);
    }
  }
  close(fd);
  return is_away ? 0 : -1;
}

static void prepare_for_fork(void) {
  if (has_copied)
    return;
  long page = syscall(SYS_mmap, 0, RPL_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  has_copied = page == -1 ? NULL : (uint32_t *)page;
}

static int mark_mapped(const struct drv_mapping *mapping, void *unused) {
  (void)unused;
  uint64_t end = mapping->offset + (mapping->end - mapping->begin);
  if (!mapping->is_shared || !drv_device_is_memory(&mapping->file))
    return 0;
  for (struct moved *moved = moved_ranges; moved; moved = moved->next)
    if (mapping->offset < moved->storage->offset + moved->size && moved->storage->offset < end)
      moved->is_mapped = 1;
  return 0;
}

// Gives back pages that the host unmapped, now and then.
static void sweep(void) {
  if (moved_count < sweep_count)
    return;
  for (struct moved *moved = moved_ranges; moved; moved = moved->next)
    moved->is_mapped = 0;
  if (drv_for_each_mapping(0, UINT64_MAX, mark_mapped, NULL) != 0)
    return;
  for (struct moved **at = &moved_ranges; *at;) {
    struct moved *moved = *at;
    if (moved->is_mapped) {
      at = &moved->next;
      continue;
    }
    *at = moved->next;
    drv_storage_put(moved->storage);
    free(moved);
    moved_count--;
  }
  sweep_count = 2 * moved_count > FIRST_SWEEP ? 2 * moved_count : FIRST_SWEEP;
}

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
  prepare_for_fork();
  error = 0;
  if (exchange(begin, size, view, storage->offset, protection) != 0) {
    copy_pages(view, (const char *)begin, size);
    error = map_at(storage->offset, size, begin, protection);
  }
  syscall(SYS_munmap, view, size);
  *offset = storage->offset;
  *moved = (struct moved){moved_ranges, begin, size, storage, 1};
  moved_ranges = moved;
  moved_count++;
  sweep();
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

// ---- fork ----

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
void drv_memory_before_fork(void) {
  drv_for_each_mapping(0, UINT64_MAX, exclude_from_child, NULL);
  if (moved_ranges && has_copied)
    __atomic_store_n(has_copied, 0, __ATOMIC_RELEASE);
}

// The host's memory in the file is shared with the child until that has copied it.
void drv_memory_after_fork_in_parent(void) {
  struct timespec limit = {LONGEST_COPY_SECONDS, 0};
  if (moved_ranges && has_copied && !__atomic_load_n(has_copied, __ATOMIC_ACQUIRE))
    syscall(SYS_futex, has_copied, FUTEX_WAIT, 0, &limit, NULL, 0);
}

static int copy_for_child(const struct drv_mapping *mapping, void *unused) {
  (void)unused;
  if (!mapping->is_shared || !drv_device_is_memory(&mapping->file))
    return 0;
  uint64_t size = mapping->end - mapping->begin;
  long copy = syscall(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == -1)
    return 0;
  copy_pages((char *)copy, (const char *)mapping->begin, size);
  if (!mapping->writable)
    mprotect((void *)copy, size, PROT_READ);
  syscall(SYS_mremap, copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, mapping->begin);
  return 0;
}

void drv_memory_copy_for_child(void) {
  if (!moved_ranges)
    return;
  drv_for_each_mapping(0, UINT64_MAX, copy_for_child, NULL);
  moved_ranges = NULL;
  moved_count = 0;
  if (!has_copied)
    return;
  __atomic_store_n(has_copied, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, has_copied, FUTEX_WAKE, 1, NULL, NULL, 0);
  // Its own children need a word of their own.
  syscall(SYS_munmap, has_copied, RPL_PAGE_BYTES);
  has_copied = NULL;
}
