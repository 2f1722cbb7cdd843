// What the system side of the emulated driver shares: settings.c, interpose.c, kfd.c, memory.c, ranges.c, svm.c, events.c, drm.c.
#ifndef RPL_SYSTEM_H
#define RPL_SYSTEM_H
#include <linux/kfd_ioctl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>
#include "driver.h"

// Layout of the memory file. Descriptors of devices are descriptors of this file; the file position of a descriptor says what it
// is, so that it stays recognisable after dup(), fork() and transfer to another process. Blocks follow from RPL_FIRST_BLOCK on.
enum { RPL_DOORBELL_BYTES = 8192, RPL_DOORBELLS = RPL_DOORBELL_BYTES / 8, RPL_LARGE_PAGE_BYTES = 2 << 20 };
#define RPL_KFD_POSITION UINT64_C(0)
#define RPL_RENDER_POSITION UINT64_C(0x1000)          // + 0x1000 * index of the GPU
#define RPL_DOORBELL_OFFSET UINT64_C(0x100000)        // + RPL_DOORBELL_BYTES * index
#define RPL_MMIO_OFFSET UINT64_C(0x200000)            // + RPL_PAGE_BYTES * index
#define RPL_FIRST_BLOCK UINT64_C(0x400000)
#define RPL_RECORDS (UINT64_C(1) << 61)               // one struct per exported block, see sharing.c
#define RPL_METADATA (RPL_RECORDS + (UINT64_C(1) << 60))  // data of libdrm's users about blocks, see sharing.c
// Offsets that stand for buffer objects whose pages are in another process's file: + (handle << RPL_FOREIGN_SHIFT). No pages.
#define RPL_FOREIGN (UINT64_C(3) << 60)
#define RPL_FILE_BYTES (UINT64_C(1) << 62)
enum { RPL_FOREIGN_SHIFT = 40 };

// ---- device.c: descriptors of the memory file ----
enum drv_device { RPL_NO_DEVICE, RPL_KFD, RPL_RENDER, RPL_CARD /* only as a path: opened, it is a render node */, RPL_DMABUF, RPL_STALE /* of the parent before fork() */ };
int drv_device_open(enum drv_device kind, uint32_t gpu, int flags);  // descriptor, or -errno
enum drv_device drv_device_of(int fd, uint32_t *gpu);
enum drv_device drv_device_of_path(const char *path, uint32_t *gpu);
struct drv_file_key { dev_t device; ino_t inode; };
void drv_note_use(void);                              // the process looked at the emulated machine
int drv_device_is_memory(const struct drv_file_key *of);
int drv_open_again(int fd, uint64_t position);        // a new open file description of the same file, at `position`; or -errno
void *drv_map_file(int fd, uint64_t offset, uint64_t size, uint64_t at /* 0: anywhere */);  // NULL: failed

// ---- ranges.c: what GPUs can access. Callers of drv_ranges_* with `locked` hold drv_memory_lock. ----
extern pthread_mutex_t drv_memory_lock;
// `gpus` has one bit per GPU. Counted ranges (blocks) may overlap; every addition needs a removal.
enum drv_range_kind { RPL_RANGE_COUNTED, RPL_RANGE_SVM, RPL_RANGE_FAULTED };
int drv_ranges_add_locked(uint32_t gpus, enum drv_range_kind kind, uint64_t begin, uint64_t end);      // 0 or ENOMEM
void drv_ranges_remove_locked(uint32_t gpus, enum drv_range_kind kind, uint64_t begin, uint64_t end);
void drv_ranges_forget(void);
int drv_is_mapped(uint64_t begin, uint64_t end);      // all pages are mapped in this process

// ---- memory.c ----
// Pages of a memory file. Blocks, imports and buffer objects of DRM hold references; it is freed with the last of them, unless a
// dmabuf descriptor in some process still refers to it.
struct drv_storage {
  struct drv_storage *next;       // in its bucket, by offset
  struct drv_storage *next_idle;  // in the list of those that only dmabufs hold
  uint64_t offset, size;
  uint32_t gpu, flags;            // index of the GPU, KFD_IOC_ALLOC_MEM_FLAGS_*
  int file;                       // -1: our memory file; else a descriptor of another process's
  uint32_t references, exported, described;
};
int drv_memory_allocate(struct kfd_ioctl_alloc_memory_of_gpu_args *args);
int drv_memory_free(uint64_t handle);
int drv_memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args);
int drv_memory_unmap(struct kfd_ioctl_unmap_memory_from_gpu_args *args);
// A block for storage that was imported; takes over the caller's reference. 0 and the handle, or an errno.
int drv_memory_adopt(struct drv_storage *storage, uint32_t gpu, uint64_t address, uint64_t *handle);
struct drv_storage *drv_memory_storage(uint64_t handle);            // with a new reference; NULL: no such block
void drv_storage_put(struct drv_storage *storage);
struct drv_storage *drv_storage_at(uint64_t offset);                // of our file, with a new reference
struct drv_storage *drv_storage_foreign(int file, uint64_t offset, uint64_t size, uint32_t gpu, uint32_t flags);  // takes `file`
void *drv_storage_map(const struct drv_storage *storage, uint64_t offset, uint64_t size, uint64_t at);
void drv_storage_usage(uint32_t gpu, uint64_t *vram_bytes, uint64_t *system_bytes);
// Pages for a block of the given kind (flags). NULL and an errno in `error` if the limit of the GPU or of the host is reached.
struct drv_storage *drv_storage_new(uint32_t gpu, uint32_t flags, uint64_t size, int *error);
void drv_storage_hold(struct drv_storage *storage);
void drv_storage_forget(void);
// ---- places.c: where device memory is mapped; callers hold drv_memory_lock ----
struct drv_place {
  uint64_t address, size;
  struct drv_storage *storage;    // NULL: the host's own memory
  uint64_t offset;                // in the storage
  uint32_t gpu;                   // to which the memory belongs, or which made the mapping
  uint32_t gpus;                  // that can access it: one bit per GPU
  uint32_t of_drm;                // of_drm: made by drv_memory_place(), which holds a reference to the storage
};
int drv_places_add(struct drv_place place);           // 0 or ENOMEM; makes the range accessible
// More or fewer GPUs can access the place with this address, size and storage. 0, ENOENT or ENOMEM.
int drv_places_allow(const struct drv_place *place, uint32_t gpus);
int drv_places_deny(const struct drv_place *place, uint32_t gpus);
int drv_places_remove(const struct drv_place *place); // the one with this address, size and storage
// Mappings that DRM makes for a GPU: part of a storage at an address. 0 or an errno.
int drv_memory_place(struct drv_storage *storage, uint64_t offset, uint64_t size, uint64_t address, uint32_t gpu);
int drv_memory_displace(uint64_t address, uint64_t size, uint32_t gpu);
void drv_memory_after_fork_in_child(void);
void drv_places_forget(void);

// ---- user.c ----
int drv_user_alias(uint64_t user, uint64_t size, uint64_t address);  // the same pages at a second address; 0 or an errno
void drv_memory_before_fork(void);
void drv_memory_after_fork_in_parent(void);
void drv_memory_copy_for_child(void);                                // first thing in the child

// ---- sharing.c: dmabufs and IPC handles ----
int drv_share_export(struct drv_storage *storage, int flags);       // a dmabuf descriptor, or -errno
// Storage of a dmabuf, of this process or another, with a new reference. NULL: not a dmabuf of an emulated GPU.
struct drv_storage *drv_share_import(int dmabuf);
int drv_share_describe(int dmabuf, uint64_t *size, uint32_t *gpu, uint32_t *flags);  // 0 or an errno
int drv_share_place(int dmabuf, uint64_t *offset, uint64_t *size);  // in its file; 0 or an errno
// Data that users of libdrm attach to a block, seen by all processes that share it; at most RPL_METADATA_BYTES. 0 or an errno.
enum { RPL_METADATA_BYTES = 512 };
int drv_share_set_metadata(struct drv_storage *storage, const void *data, size_t size);
int drv_share_get_metadata(const struct drv_storage *storage, void *data, size_t size);
int drv_share_is_held(const struct drv_storage *storage);           // a dmabuf still refers to these pages
void drv_share_forget_storage(const struct drv_storage *storage);   // its pages are being freed
int drv_ipc_export(struct drv_storage *storage, uint32_t handle[4]);
struct drv_storage *drv_ipc_import(const uint32_t handle[4]);

// ---- svm.c ----
int drv_svm(struct kfd_ioctl_svm_args *args);
int drv_xnack(void);
int drv_set_xnack(struct kfd_ioctl_set_xnack_mode_args *args, int has_queues);
void drv_svm_forget(void);

// ---- events.c ----
int drv_event_create(struct kfd_ioctl_create_event_args *args);
int drv_event_destroy(uint32_t event_id);
int drv_event_set_by_host(uint32_t event_id);
int drv_event_reset(uint32_t event_id);
int drv_events_wait(struct kfd_ioctl_wait_events_args *args);
int drv_event_page_is(uint64_t handle);
void drv_events_forget(void);

// ---- smi.c ----
int drv_smi_open(uint32_t gpu, uint32_t *fd);
void drv_smi_memory_fault(uint32_t gpu_id);
void drv_smi_forget(void);

// ---- kfd.c, drm.c: 0 or an errno ----
int drv_kfd_ioctl(uint32_t number, void *args);
int drv_drm_ioctl(uint32_t gpu, unsigned long request, void *args);
void drv_kfd_forget(void);
void drv_drm_forget(void);
#endif
