// Functions of the C library that this library replaces: paths of the emulated devices and of their files in sysfs lead to the
// session directory, and ioctl() of the emulated devices to the emulated driver. All others are passed on.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "drm.h"

enum { DRM_MAJOR = 226, KFD_MAJOR = 236, DEVICE_MODE = S_IFCHR | 0666, KFD_TYPE = 'K', DRM_TYPE = 'd' };

// The next definition of a function. Resolved at the first call; several threads store the same value.
#define NEXT(name)                                                        \
  static __typeof__(&name) next_##name;                                   \
  if (!next_##name)                                                       \
  next_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

// ---- paths ----

// Directories of sysfs, and that of DRM's devices. `whole`: only the session's files exist there; else the host's, except those that the session has.
struct root { const char *path; int whole; };
static const struct root roots[] = {{"/sys/devices/virtual/kfd", 1}, {"/sys/module/amdgpu", 1}, {"/sys/class/kfd", 1},
                                    {"/sys/class/drm", 1},           {"/sys/dev/char/226:", 1}, {"/sys/kernel/debug/dri", 1},
                                    {"/dev/dri", 1},
                                    {"/sys/bus/pci", 0},             {"/sys/devices/pci", 0},   {"/sys/class/hwmon", 0}};

static int exists(const char *path) {
  int error = errno;
  int found = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = error;
  return found;
}

static int is_below(const char *path, const char *root) {
  size_t length = strlen(root);
  char last = root[length - 1], after = path[length];
  // "226:" and "/sys/devices/pci" are beginnings of names.
  return strncmp(path, root, length) == 0 && (after == 0 || after == '/' || last == ':' || strcmp(root, "/sys/devices/pci") == 0);
}

// The path to use instead of `path`; `buffer` has PATH_MAX bytes.
static const char *redirected(const char *path, char *buffer) {
  if (!path || (strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/dev/dri", 8) != 0))
    return path;
  const struct drv_settings *session = drv_settings();
  if (!session || strlen(session->session) + strlen(path) >= PATH_MAX)
    return path;
  for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
    if (!is_below(path, roots[i].path))
      continue;
    char *end = stpcpy(buffer, session->session);
    // A tree that the session does not have at all is the host's.
    int last = (int)strlen(roots[i].path) - 1;
    stpcpy(end, roots[i].path);
    int has_tree = roots[i].path[last] == ':' || !roots[i].whole || exists(buffer);
    stpcpy(end, path);
    if (!has_tree || (!roots[i].whole && !exists(buffer)))
      return path;
    if (roots[i].whole)
      drv_note_use();
    drv_log(3, "%s -> %s", path, buffer);
    return buffer;
  }
  return path;
}

static enum drv_device device_path(const char *path, uint32_t *gpu) {
  *gpu = 0;
  return path && strncmp(path, "/dev/", 5) == 0 ? drv_device_of_path(path, gpu) : RPL_NO_DEVICE;
}

static int fail(int error) {
  errno = error;
  return -1;
}

// Opens `path` if it is a device. Returns -1 with errno set, or the descriptor, in `fd`.
static int opened_device(const char *path, int flags, int *fd) {
  uint32_t gpu;
  enum drv_device kind = device_path(path, &gpu);
  if (kind == RPL_NO_DEVICE)
    return 0;
  *fd = drv_device_open(kind, gpu, flags);
  if (*fd < 0)
    *fd = fail(-*fd);
  return 1;
}

static int needs_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

#define DEFINE_OPEN(name)                                       \
  RPL_EXPORT int name(const char *path, int flags, ...) {       \
    NEXT(name);                                                 \
    char buffer[PATH_MAX];                                      \
    int fd;                                                     \
    if (opened_device(path, flags, &fd))                        \
      return fd;                                                \
    path = redirected(path, buffer);                            \
    if (!needs_mode(flags))                                     \
      return next_##name(path, flags);                          \
    va_list arguments;                                          \
    va_start(arguments, flags);                                 \
    mode_t mode = va_arg(arguments, mode_t);                    \
    va_end(arguments);                                          \
    return next_##name(path, flags, mode);                      \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                            \
  RPL_EXPORT int name(int directory, const char *path, int flags, ...) { \
    NEXT(name);                                                        \
    char buffer[PATH_MAX];                                             \
    int fd;                                                            \
    if (opened_device(path, flags, &fd))                               \
      return fd;                                                       \
    path = redirected(path, buffer);                                   \
    if (!needs_mode(flags))                                            \
      return next_##name(directory, path, flags);                      \
    va_list arguments;                                                 \
    va_start(arguments, flags);                                        \
    mode_t mode = va_arg(arguments, mode_t);                           \
    va_end(arguments);                                                 \
    return next_##name(directory, path, flags, mode);                  \
  }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

// Entry points of fortified programs.
RPL_EXPORT int open_2(const char *path, int flags) __asm__("__open_2");
RPL_EXPORT int open64_2(const char *path, int flags) __asm__("__open64_2");
RPL_EXPORT int openat_2(int directory, const char *path, int flags) __asm__("__openat_2");
RPL_EXPORT int openat64_2(int directory, const char *path, int flags) __asm__("__openat64_2");
int open_2(const char *path, int flags) { return open(path, flags); }
int open64_2(const char *path, int flags) { return open64(path, flags); }
int openat_2(int directory, const char *path, int flags) { return openat(directory, path, flags); }
int openat64_2(int directory, const char *path, int flags) { return openat64(directory, path, flags); }

#define DEFINE_FOPEN(name)                                            \
  RPL_EXPORT FILE *name(const char *path, const char *mode) {         \
    NEXT(name);                                                       \
    char buffer[PATH_MAX];                                            \
    uint32_t gpu;                                                     \
    if (device_path(path, &gpu) == RPL_NO_DEVICE)                     \
      return next_##name(redirected(path, buffer), mode);             \
    int fd = open(path, O_RDWR | O_CLOEXEC);                          \
    return fd < 0 ? NULL : fdopen(fd, mode);                          \
  }
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

RPL_EXPORT DIR *opendir(const char *path) {
  NEXT(opendir);
  char buffer[PATH_MAX];
  return next_opendir(redirected(path, buffer));
}

#define DEFINE_SCANDIR(name, entry)                                                                               \
  RPL_EXPORT int name(const char *path, struct entry ***list, int (*filter)(const struct entry *),                \
                      int (*compare)(const struct entry **, const struct entry **)) {                             \
    NEXT(name);                                                                                                   \
    char buffer[PATH_MAX];                                                                                        \
    return next_##name(redirected(path, buffer), list, filter, compare);                                          \
  }
DEFINE_SCANDIR(scandir, dirent)
DEFINE_SCANDIR(scandir64, dirent64)

RPL_EXPORT int access(const char *path, int mode) {
  NEXT(access);
  char buffer[PATH_MAX];
  uint32_t gpu;
  if (device_path(path, &gpu) != RPL_NO_DEVICE)
    return mode & X_OK ? fail(EACCES) : 0;
  return next_access(redirected(path, buffer), mode);
}

RPL_EXPORT int faccessat(int directory, const char *path, int mode, int flags) {
  NEXT(faccessat);
  char buffer[PATH_MAX];
  uint32_t gpu;
  if (device_path(path, &gpu) != RPL_NO_DEVICE)
    return mode & X_OK ? fail(EACCES) : 0;
  return next_faccessat(directory, redirected(path, buffer), mode, flags);
}

RPL_EXPORT ssize_t readlink(const char *path, char *target, size_t size) {
  NEXT(readlink);
  char buffer[PATH_MAX];
  return next_readlink(redirected(path, buffer), target, size);
}

RPL_EXPORT ssize_t readlinkat(int directory, const char *path, char *target, size_t size) {
  NEXT(readlinkat);
  char buffer[PATH_MAX];
  return next_readlinkat(directory, redirected(path, buffer), target, size);
}

// The session directory is not visible in the result.
static char *without_session(char *resolved) {
  const struct drv_settings *session = drv_settings();
  size_t length = session ? strlen(session->session) : 0;
  if (resolved && session && strncmp(resolved, session->session, length) == 0 && strncmp(resolved + length, "/sys/", 5) == 0)
    memmove(resolved, resolved + length, strlen(resolved + length) + 1);
  return resolved;
}

RPL_EXPORT char *realpath(const char *path, char *resolved) {
  NEXT(realpath);
  char buffer[PATH_MAX];
  const char *used = redirected(path, buffer);
  char *result = next_realpath(used, resolved);
  return used == path ? result : without_session(result);
}

RPL_EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }
RPL_EXPORT char *realpath_chk(const char *path, char *resolved, size_t size) __asm__("__realpath_chk");
char *realpath_chk(const char *path, char *resolved, size_t size) {
  (void)size;
  return realpath(path, resolved);
}

// ---- status of files ----

static dev_t number_of(enum drv_device kind, uint32_t gpu) {
  if (kind == RPL_KFD)
    return makedev(KFD_MAJOR, 0);
  return makedev(DRM_MAJOR, kind == RPL_CARD ? gpu : drv_settings()->gpus[gpu].render_minor);
}

// Makes the status of the memory file, or any, that of a device.
#define BECOME_DEVICE(status, kind, gpu)                      \
  do {                                                        \
    (status)->st_mode = DEVICE_MODE;                          \
    (status)->st_rdev = number_of(kind, gpu);                 \
    (status)->st_size = (status)->st_blocks = 0;              \
  } while (0)

// After a successful fstat() of a descriptor.
#define CORRECT(fd, status)                                                                                     \
  do {                                                                                                          \
    struct drv_file_key key_ = {(status)->st_dev, (status)->st_ino};                                            \
    uint32_t gpu_;                                                                                              \
    if (drv_device_is_memory(&key_)) {                                                                          \
      enum drv_device kind_ = drv_device_of(fd, &gpu_);                                                         \
      if (kind_ == RPL_KFD || (kind_ == RPL_RENDER && gpu_ < RPL_MAX_GPUS))                                     \
        BECOME_DEVICE(status, kind_, gpu_);                                                                     \
    }                                                                                                           \
  } while (0)

// The structures of the C library and of the kernel are the same on this architecture.
static int status_at(int directory, const char *path, void *status, int flags) {
  return (int)syscall(SYS_newfstatat, directory, path, status, flags);
}

#define STATUS_OF_PATH(directory, path, status, flags)                           \
  do {                                                                           \
    char buffer_[PATH_MAX];                                                      \
    uint32_t gpu_;                                                               \
    enum drv_device kind_ = device_path(path, &gpu_);                            \
    if (kind_ == RPL_NO_DEVICE)                                                  \
      return status_at(directory, redirected(path, buffer_), status, flags);     \
    memset(status, 0, sizeof *(status));                                         \
    (status)->st_nlink = 1;                                                      \
    BECOME_DEVICE(status, kind_, gpu_);                                          \
    return 0;                                                                    \
  } while (0)

#define STATUS_OF_DESCRIPTOR(fd, status)                                         \
  do {                                                                           \
    int result_ = (int)syscall(SYS_fstat, fd, status);                           \
    if (result_ == 0)                                                            \
      CORRECT(fd, status);                                                       \
    return result_;                                                              \
  } while (0)

// `type` is struct stat or struct stat64; the __xstat family is that of programs for glibc before 2.33.
#define DEFINE_STATUS(suffix)                                                                                                \
  RPL_EXPORT int stat##suffix(const char *path, struct stat##suffix *status) { STATUS_OF_PATH(AT_FDCWD, path, status, 0); }  \
  RPL_EXPORT int lstat##suffix(const char *path, struct stat##suffix *status) {                                              \
    STATUS_OF_PATH(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);                                                             \
  }                                                                                                                          \
  RPL_EXPORT int fstat##suffix(int fd, struct stat##suffix *status) { STATUS_OF_DESCRIPTOR(fd, status); }                    \
  RPL_EXPORT int fstatat##suffix(int directory, const char *path, struct stat##suffix *status, int flags) {                  \
    if (path && !*path && flags & AT_EMPTY_PATH)                                                                             \
      STATUS_OF_DESCRIPTOR(directory, status);                                                                               \
    STATUS_OF_PATH(directory, path, status, flags);                                                                          \
  }                                                                                                                          \
  RPL_EXPORT int xstat##suffix(int version, const char *path, struct stat##suffix *status) __asm__("__xstat" #suffix);       \
  int xstat##suffix(int version, const char *path, struct stat##suffix *status) {                                            \
    (void)version;                                                                                                           \
    return stat##suffix(path, status);                                                                                       \
  }                                                                                                                          \
  RPL_EXPORT int lxstat##suffix(int version, const char *path, struct stat##suffix *status) __asm__("__lxstat" #suffix);     \
  int lxstat##suffix(int version, const char *path, struct stat##suffix *status) {                                           \
    (void)version;                                                                                                           \
    return lstat##suffix(path, status);                                                                                      \
  }                                                                                                                          \
  RPL_EXPORT int fxstat##suffix(int version, int fd, struct stat##suffix *status) __asm__("__fxstat" #suffix);               \
  int fxstat##suffix(int version, int fd, struct stat##suffix *status) {                                                     \
    (void)version;                                                                                                           \
    return fstat##suffix(fd, status);                                                                                        \
  }                                                                                                                          \
  RPL_EXPORT int fxstatat##suffix(int version, int directory, const char *path, struct stat##suffix *status, int flags)      \
      __asm__("__fxstatat" #suffix);                                                                                         \
  int fxstatat##suffix(int version, int directory, const char *path, struct stat##suffix *status, int flags) {               \
    (void)version;                                                                                                           \
    return fstatat##suffix(directory, path, status, flags);                                                                  \
  }
DEFINE_STATUS()
DEFINE_STATUS(64)

static void become_device_x(struct statx *status, enum drv_device kind, uint32_t gpu) {
  dev_t number = number_of(kind, gpu);
  status->stx_mode = DEVICE_MODE;
  status->stx_rdev_major = major(number);
  status->stx_rdev_minor = minor(number);
  status->stx_size = status->stx_blocks = 0;
}

RPL_EXPORT int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status) {
  char buffer[PATH_MAX];
  uint32_t gpu;
  enum drv_device kind = device_path(path, &gpu);
  if (kind != RPL_NO_DEVICE) {
    memset(status, 0, sizeof *status);
    status->stx_mask = STATX_BASIC_STATS;
    status->stx_nlink = 1;
    become_device_x(status, kind, gpu);
    return 0;
  }
  int result = (int)syscall(SYS_statx, directory, redirected(path, buffer), flags, mask, status);
  if (result == 0 && path && !*path && flags & AT_EMPTY_PATH) {
    kind = drv_device_of(directory, &gpu);
    if (kind == RPL_KFD || (kind == RPL_RENDER && gpu < RPL_MAX_GPUS))
      become_device_x(status, kind, gpu);
  }
  return result;
}

// ---- lseek, mmap, ioctl ----

// The size of a dmabuf is asked for by its end. Its real position may not change: that says which pages it stands for.
RPL_EXPORT off_t lseek(int fd, off_t offset, int whence) {
  if (offset != 0 || (whence != SEEK_END && whence != SEEK_SET) || syscall(SYS_lseek, fd, 0, SEEK_CUR) < (long)RPL_RECORDS)
    return syscall(SYS_lseek, fd, offset, whence);
  uint64_t place, size;
  if (drv_share_place(fd, &place, &size) != 0)
    return syscall(SYS_lseek, fd, offset, whence);
  return whence == SEEK_END ? (off_t)size : 0;
}

RPL_EXPORT off64_t lseek64(int fd, off64_t offset, int whence) { return lseek(fd, offset, whence); }

// Offsets of a dmabuf are those of its pages in the file. Returns 0 if `fd` is none, or the access is out of its bounds.
static int is_part_of_dmabuf(int fd, uint64_t size, off_t *offset) {
  int error = errno;
  uint64_t place, whole;
  int is_dmabuf = syscall(SYS_lseek, fd, 0, SEEK_CUR) >= (long)RPL_RECORDS && drv_share_place(fd, &place, &whole) == 0;
  errno = error;
  if (!is_dmabuf || (uint64_t)*offset > whole || size > whole - (uint64_t)*offset)
    return 0;
  *offset += (off_t)place;
  return 1;
}

RPL_EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  uint32_t gpu;
  if (fd >= 0 && is_part_of_dmabuf(fd, size, &offset)) {
    void *mapped = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    if (mapped != MAP_FAILED)
      madvise(mapped, size, MADV_DONTFORK);
    return mapped;
  }
  // No other file is that large.
  if (fd >= 0 && (uint64_t)offset >= RPL_FOREIGN && drv_device_of(fd, &gpu) == RPL_RENDER) {
    struct drv_mapping_request request = {at, size, protection, flags};
    return drv_gem_map_foreign(gpu, (uint64_t)offset, &request);
  }
  return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

RPL_EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
  return mmap(at, size, protection, flags, fd, offset);
}

RPL_EXPORT int mprotect(void *at, size_t size, int protection) {
  int result = (int)syscall(SYS_mprotect, at, size, protection);
  uint64_t begin = (uint64_t)at, end = (begin + size + RPL_PAGE_BYTES - 1) / RPL_PAGE_BYTES * RPL_PAGE_BYTES;
  if (result == 0 && protection & PROT_READ && drv_settings())
    drv_ranges_protected(begin, end, !(protection & PROT_WRITE));
  return result;
}

RPL_EXPORT int ioctl(int fd, unsigned long request, ...) {
  NEXT(ioctl);
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  unsigned type = _IOC_TYPE(request);
  if (type != KFD_TYPE && type != DRM_TYPE)
    return next_ioctl(fd, request, argument);
  uint32_t gpu;
  enum drv_device kind = drv_device_of(fd, &gpu);
  if (kind == RPL_NO_DEVICE)
    return next_ioctl(fd, request, argument);
  // A device that was opened before fork() belongs to the parent.
  int error = kind == RPL_STALE                          ? EBADF
              : kind == RPL_KFD && type == KFD_TYPE      ? drv_kfd_ioctl(_IOC_NR(request), argument)
              : kind == RPL_RENDER && type == DRM_TYPE   ? drv_drm_ioctl(gpu, request, argument)
                                                         : ENOTTY;
  return error ? fail(error) : 0;
}
