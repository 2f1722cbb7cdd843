// Sharing of device memory between processes: dmabuf descriptors and KFD's IPC handles.
//
// A dmabuf is an open file description of the exporter's memory file, at the position of a record in the same file that says
// which pages it stands for. It can be sent to other processes, and outlives the exporter. A lock of the description on these
// pages tells the exporter as long as any process still has it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "system.h"

#define MAGIC UINT64_C(0x4655424d454d5047)
enum { RECORD_BYTES = 64 };
struct record {
  uint64_t magic, offset, size;
  uint32_t gpu, flags;
  uint64_t reserved[4];
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "records are found by their position");

static uint64_t position_of(uint64_t offset) { return RPL_RECORDS + offset / RPL_PAGE_BYTES * RECORD_BYTES; }

static uint64_t metadata_of(uint64_t offset) { return RPL_METADATA + offset / RPL_PAGE_BYTES * RPL_METADATA_BYTES; }

static int lock_pages(int fd, const struct drv_storage *storage) {
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)storage->offset, .l_len = (off_t)storage->size};
  return fcntl(fd, F_OFD_SETLK, &lock);
}

int drv_share_is_held(const struct drv_storage *storage) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)storage->offset, .l_len = (off_t)storage->size};
  return fcntl(drv_memory_file(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int write_record(struct drv_storage *storage) {
  struct record record = {MAGIC, storage->offset, storage->size, storage->gpu, storage->flags, {0}};
  if (pwrite(drv_memory_file(), &record, sizeof record, (off_t)position_of(storage->offset)) != (ssize_t)sizeof record)
    return ENOSPC;
  storage->exported = 1;
  return 0;
}

void drv_share_forget_storage(const struct drv_storage *storage) {
  static const struct record nothing;
  if (storage->exported)
    (void)!pwrite(drv_memory_file(), &nothing, sizeof nothing, (off_t)position_of(storage->offset));
  static const char no_metadata[RPL_METADATA_BYTES];
  char metadata[RPL_METADATA_BYTES];
  const off_t place = (off_t)metadata_of(storage->offset);
  // Of a block that never had any, the page of metadata does not exist, and writing would create it. An importer may have set them.
  if ((storage->exported || storage->described) && pread(drv_memory_file(), metadata, sizeof metadata, place) > 0 &&
      memcmp(metadata, no_metadata, sizeof metadata) != 0)
    (void)!pwrite(drv_memory_file(), no_metadata, sizeof no_metadata, place);
}

int drv_share_set_metadata(struct drv_storage *storage, const void *data, size_t size) {
  int file = storage->file >= 0 ? storage->file : drv_memory_file();
  if (size > RPL_METADATA_BYTES)
    return EINVAL;
  storage->described = 1;
  return pwrite(file, data, size, (off_t)metadata_of(storage->offset)) == (ssize_t)size ? 0 : ENOSPC;
}

int drv_share_get_metadata(const struct drv_storage *storage, void *data, size_t size) {
  int file = storage->file >= 0 ? storage->file : drv_memory_file();
  if (size > RPL_METADATA_BYTES)
    return EINVAL;
  return pread(file, data, size, (off_t)metadata_of(storage->offset)) == (ssize_t)size ? 0 : EIO;
}

static int read_record(int fd, uint64_t position, struct record *record) {
  return position >= RPL_RECORDS && pread(fd, record, sizeof *record, (off_t)position) == (ssize_t)sizeof *record &&
         record->magic == MAGIC && position_of(record->offset) == position && record->gpu < drv_settings()->gpu_count;
}

static int record_of(int dmabuf, struct record *record) {
  long position = syscall(SYS_lseek, dmabuf, 0, SEEK_CUR);
  return position >= 0 && read_record(dmabuf, (uint64_t)position, record);
}

int drv_share_export(struct drv_storage *storage, int flags) {
  int fd;
  if (storage->file >= 0) {
    // Memory of another process is passed on as it came.
    fd = fcntl(storage->file, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      return -errno;
  } else {
    int error = write_record(storage);
    fd = error ? -error : drv_open_again(drv_memory_file(), position_of(storage->offset));
    if (fd < 0)
      return fd;
    if (lock_pages(fd, storage) != 0) {
      close(fd);
      return -ENOMEM;
    }
  }
  if (!(flags & O_CLOEXEC))
    fcntl(fd, F_SETFD, 0);
  return fd;
}

static int is_ours(int fd) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) != 0)
    return 0;
  struct drv_file_key key = {status.st_dev, status.st_ino};
  return drv_device_is_memory(&key);
}

struct drv_storage *drv_share_import(int dmabuf) {
  struct record record;
  if (!record_of(dmabuf, &record))
    return NULL;
  if (is_ours(dmabuf))
    return drv_storage_at(record.offset);
  int file = fcntl(dmabuf, F_DUPFD_CLOEXEC, 0);
  return file < 0 ? NULL : drv_storage_foreign(file, record.offset, record.size, record.gpu, record.flags);
}

int drv_share_describe(int dmabuf, uint64_t *size, uint32_t *gpu, uint32_t *flags) {
  struct record record;
  if (!record_of(dmabuf, &record))
    return EINVAL;
  *size = record.size;
  *gpu = record.gpu;
  *flags = record.flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
  return 0;
}

int drv_share_place(int dmabuf, uint64_t *offset, uint64_t *size) {
  struct record record;
  if (!drv_settings() || !record_of(dmabuf, &record))
    return EINVAL;
  *offset = record.offset;
  *size = record.size;
  return 0;
}

// An IPC handle names the exporter's process, its memory file there, and the page of the block. It is valid while the exporter
// lives and has not freed the block, as with KFD.
int drv_ipc_export(struct drv_storage *storage, uint32_t handle[4]) {
  if (storage->file >= 0)
    return EINVAL;
  int error = write_record(storage);
  if (error)
    return error;
  uint64_t page = storage->offset / RPL_PAGE_BYTES;
  handle[0] = (uint32_t)getpid();
  handle[1] = (uint32_t)drv_memory_file();
  handle[2] = (uint32_t)page;
  handle[3] = (uint32_t)(page >> 32);
  return 0;
}

struct drv_storage *drv_ipc_import(const uint32_t handle[4]) {
  uint64_t offset = (handle[2] | (uint64_t)handle[3] << 32) * RPL_PAGE_BYTES;
  if (handle[0] == (uint32_t)getpid())
    return drv_storage_at(offset);
  char path[48];
  snprintf(path, sizeof path, "/proc/%u/fd/%u", handle[0], handle[1]);
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (file < 0)
    return NULL;
  struct record record;
  uint64_t position = position_of(offset);
  if (!read_record(file, position, &record) || syscall(SYS_lseek, file, position, SEEK_SET) < 0) {
    close(file);
    return NULL;
  }
  struct drv_storage *storage = drv_storage_foreign(file, record.offset, record.size, record.gpu, record.flags);
  if (storage)
    lock_pages(file, storage);
  return storage;
}
