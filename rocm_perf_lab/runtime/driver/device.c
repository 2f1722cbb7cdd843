// Descriptors of /dev/kfd, of render nodes and of dmabufs: open file descriptions of the memory file, told apart by their
// position.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "system.h"

enum { UNTRIED = -1, STALE_FILES = 64, LOWEST_DESCRIPTOR = 64 };
static _Atomic int memory_file = UNTRIED;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct drv_file_key key;                    // of the memory file, once it is there
static struct drv_file_key stale[STALE_FILES];     // of the processes that this one was forked from
static uint32_t stale_count;

static int key_of(int fd, struct drv_file_key *of) {
  struct stat status;
  // Not fstat(): that is one of the functions that this library replaces.
  if (syscall(SYS_fstat, fd, &status) != 0)
    return 0;
  *of = (struct drv_file_key){status.st_dev, status.st_ino};
  return 1;
}

static int same(const struct drv_file_key *a, const struct drv_file_key *b) {
  return a->inode == b->inode && a->device == b->device;
}

static void after_fork_in_child(void) {
  drv_memory_copy_for_child();
  if (memory_file >= 0) {
    stale[stale_count++ % STALE_FILES] = key;
    close(memory_file);
    memory_file = UNTRIED;
  }
  pthread_mutex_init(&opening, NULL);
  drv_memory_after_fork_in_child();
  drv_kfd_forget();
  drv_events_forget();
  drv_smi_forget();
  drv_drm_forget();
  drv_queues_forget();
}

// Returns the descriptor or -errno. High numbers, so that programs that expect the next free one see no difference.
static int create_file(void) {
  static int has_handlers;
  int fd = (int)syscall(SYS_memfd_create, "gpu memory", MFD_CLOEXEC);
  if (fd < 0)
    return -errno;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
  if (high >= 0) {
    close(fd);
    fd = high;
  }
  if (ftruncate(fd, (off_t)RPL_FILE_BYTES) != 0 || !key_of(fd, &key)) {
    int error = errno;
    close(fd);
    return -error;
  }
  if (!has_handlers) {
    has_handlers = 1;
    pthread_atfork(drv_memory_before_fork, drv_memory_after_fork_in_parent, after_fork_in_child);
  }
  return fd;
}

int drv_memory_file(void) {
  int fd = memory_file;
  if (fd >= 0)
    return fd;
  pthread_mutex_lock(&opening);
  fd = memory_file;
  if (fd < 0 && (fd = create_file()) >= 0)
    memory_file = fd;
  pthread_mutex_unlock(&opening);
  return fd;
}

int drv_open_again(int fd, uint64_t position) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int again = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (again < 0)
    return -errno;
  if (syscall(SYS_lseek, again, position, SEEK_SET) < 0) {
    int error = errno;
    close(again);
    return -error;
  }
  return again;
}

// Leaves a file in the session directory, by which `rocm-perf run` sees that the driver was loaded and used.
static void leave_mark(const char *name) {
  const struct drv_settings *session = drv_settings();
  char path[sizeof session->session + 16];
  if (!session)
    return;
  snprintf(path, sizeof path, "%s/%s", session->session, name);
  long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0)
    syscall(SYS_close, fd);
}

__attribute__((constructor)) static void note_load(void) { leave_mark("loaded"); }

void drv_note_use(void) {
  static atomic_int is_noted;
  int error = errno;
  if (!atomic_exchange(&is_noted, 1))
    leave_mark("used");
  errno = error;
}

int drv_device_open(enum drv_device kind, uint32_t gpu, int flags) {
  int file = drv_memory_file();
  if (file < 0)
    return file;
  int fd = drv_open_again(file, kind == RPL_KFD ? RPL_KFD_POSITION : RPL_RENDER_POSITION + gpu * UINT64_C(0x1000));
  if (fd >= 0 && !(flags & O_CLOEXEC))
    fcntl(fd, F_SETFD, 0);
  if (fd >= 0)
    drv_note_use();
  drv_log(1, "open %s%u -> %d", kind == RPL_KFD ? "/dev/kfd " : "render node ", gpu, fd);
  return fd;
}

int drv_device_is_memory(const struct drv_file_key *of) { return memory_file >= 0 && same(of, &key); }

enum drv_device drv_device_of(int fd, uint32_t *gpu) {
  struct drv_file_key of;
  *gpu = 0;
  if ((memory_file < 0 && !stale_count) || !key_of(fd, &of))
    return RPL_NO_DEVICE;
  for (uint32_t i = 0; i < stale_count && i < STALE_FILES; i++)
    if (same(&of, &stale[i]))
      return RPL_STALE;
  if (!drv_device_is_memory(&of))
    return RPL_NO_DEVICE;
  uint64_t position = (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
  if (position >= RPL_RECORDS)
    return RPL_DMABUF;
  if (position < RPL_RENDER_POSITION)
    return RPL_KFD;
  *gpu = (uint32_t)((position - RPL_RENDER_POSITION) / 0x1000);
  return RPL_RENDER;
}

enum drv_device drv_device_of_path(const char *path, uint32_t *gpu) {
  static const char render[] = "/dev/dri/renderD", card[] = "/dev/dri/card";
  const struct drv_settings *session = drv_settings();
  *gpu = 0;
  if (!session)
    return RPL_NO_DEVICE;
  if (strcmp(path, "/dev/kfd") == 0)
    return RPL_KFD;
  int is_render = strncmp(path, render, sizeof render - 1) == 0, is_card = strncmp(path, card, sizeof card - 1) == 0;
  if (!is_render && !is_card)
    return RPL_NO_DEVICE;
  const char *digits = path + (is_render ? sizeof render : sizeof card) - 1;
  char *end;
  unsigned long minor = strtoul(digits, &end, 10);
  for (uint32_t i = 0; end > digits && *end == 0 && i < session->gpu_count; i++)
    if ((is_render ? session->gpus[i].render_minor : i) == minor) {
      *gpu = i;
      return is_render ? RPL_RENDER : RPL_CARD;
    }
  return RPL_NO_DEVICE;
}

void *drv_map_file(int fd, uint64_t offset, uint64_t size, uint64_t at) {
  int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
  long mapped = syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE, flags, fd, offset);
  return mapped == -1 ? NULL : (void *)mapped;
}
