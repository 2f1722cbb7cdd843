// Functions of libdrm and libdrm_amdgpu that ROCr calls. The library's own need files in sysfs and in /dev that a container or a
// machine without a GPU does not have. For devices that are not emulated, the calls are passed on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "drm.h"

enum { MAJOR = 3, MINOR = 61, DMABUF = 2, KMS = 1, KMS_NO_IMPORT = 3 };
struct amdgpu_device { uint32_t gpu; int fd; _Atomic int users; };
struct amdgpu_bo {
  uint32_t handle, gpu;
  uint64_t size;
  void *mapped;
  uint32_t map_count;
  _Atomic uint32_t references;
  struct drv_storage *storage;
};
struct amdgpu_bo_import_result { struct amdgpu_bo *buf_handle; uint64_t alloc_size; };
struct amdgpu_bo_alloc_request { uint64_t alloc_size, phys_alignment; uint32_t preferred_heap; uint64_t flags; };
struct amdgpu_bo_metadata { uint64_t flags, tiling_info; uint32_t size_metadata, umd_metadata[64]; };
struct amdgpu_bo_info {
  uint64_t alloc_size, phys_alignment;
  uint32_t preferred_heap;
  uint64_t alloc_flags;
  struct amdgpu_bo_metadata metadata;
};
_Static_assert(sizeof(struct amdgpu_bo_metadata) <= RPL_METADATA_BYTES, "it is stored as it is");
struct amdgpu_gpu_info {
  uint32_t asic_id, chip_rev, chip_external_rev, family_id;
  uint64_t ids_flags, max_engine_clk, max_memory_clk;
  uint32_t num_shader_engines, num_shader_arrays_per_engine, avail_quad_shader_pipes, max_quad_shader_pipes;
  uint32_t cache_entries_per_quad_pipe, num_hw_gfx_contexts, rb_pipes, enabled_rb_pipes_mask, gpu_counter_freq;
  uint32_t backend_disable[4], mc_arb_ramcfg, gb_addr_cfg, gb_tile_mode[32], gb_macro_tile_mode[16];
  uint32_t pa_sc_raster_cfg[4], pa_sc_raster_cfg1[4], cu_active_number, cu_ao_mask, cu_bitmap[4][4];
  uint32_t vram_type, vram_bit_width, ce_ram_size, vce_harvest_config, pci_rev_id;
};
typedef struct amdgpu_device *device_handle;
typedef struct amdgpu_bo *bo_handle;

static struct amdgpu_device devices[RPL_MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The library may have been loaded by dlopen() out of the global scope.
static void *next(const char *name) {
  static const char *const libraries[] = {"libdrm_amdgpu.so.1", "libdrm.so.2"};
  void *function = dlsym(RTLD_NEXT, name);
  for (size_t i = 0; !function && i < sizeof libraries / sizeof libraries[0]; i++) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    function = library ? dlsym(library, name) : NULL;
    if (library)
      dlclose(library);
  }
  return function;
}

// Calls the library's own function, or gives `otherwise` if there is none.
#define FORWARD(type, otherwise, name, ...)                        \
  do {                                                             \
    __typeof__(&name) function_ = (__typeof__(&name))next(#name);  \
    return function_ ? function_(__VA_ARGS__) : (type)(otherwise); \
  } while (0)

static int is_emulated(const struct amdgpu_device *device) {
  return (uintptr_t)device >= (uintptr_t)devices && (uintptr_t)device < (uintptr_t)(devices + RPL_MAX_GPUS);
}

// ---- devices ----

RPL_EXPORT int amdgpu_device_initialize(int fd, uint32_t *major_version, uint32_t *minor_version, device_handle *device) {
  uint32_t gpu;
  if (drv_device_of(fd, &gpu) != RPL_RENDER)
    FORWARD(int, -ENODEV, amdgpu_device_initialize, fd, major_version, minor_version, device);
  if (gpu >= drv_settings()->gpu_count)
    return -ENODEV;
  pthread_mutex_lock(&lock);
  struct amdgpu_device *of = &devices[gpu];
  int error = 0;
  if (of->users == 0) {
    int own = drv_device_open(RPL_RENDER, gpu, O_CLOEXEC);
    *of = (struct amdgpu_device){gpu, own, 0};
    error = own < 0 ? own : 0;
  }
  of->users += !error;
  pthread_mutex_unlock(&lock);
  *major_version = MAJOR;
  *minor_version = MINOR;
  *device = of;
  return error;
}

RPL_EXPORT int amdgpu_device_deinitialize(device_handle device) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_device_deinitialize, device);
  pthread_mutex_lock(&lock);
  if (device->users > 0) {
    device->users--;
    if (device->users == 0)
      close(device->fd);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

RPL_EXPORT int amdgpu_device_get_fd(device_handle device) {
  if (!is_emulated(device))
    FORWARD(int, -1, amdgpu_device_get_fd, device);
  return device->fd;
}

RPL_EXPORT const char *amdgpu_get_marketing_name(device_handle device) {
  if (!is_emulated(device))
    FORWARD(const char *, NULL, amdgpu_get_marketing_name, device);
  return drv_settings()->gpus[device->gpu].name;
}

RPL_EXPORT int amdgpu_query_info(device_handle device, unsigned id, unsigned size, void *value) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_query_info, device, id, size, value);
  struct drm_amdgpu_info query = {.return_pointer = (uintptr_t)value, .return_size = size, .query = id};
  return -drv_drm_info(device->gpu, &query);
}

RPL_EXPORT int amdgpu_query_gpu_info(device_handle device, struct amdgpu_gpu_info *info) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_query_gpu_info, device, info);
  struct drm_amdgpu_info_device of;
  int error = amdgpu_query_info(device, AMDGPU_INFO_DEV_INFO, sizeof of, &of);
  if (error)
    return error;
  *info = (struct amdgpu_gpu_info){
      .asic_id = of.device_id, .chip_rev = of.chip_rev, .chip_external_rev = of.external_rev, .family_id = of.family,
      .ids_flags = of.ids_flags, .max_engine_clk = of.max_engine_clock, .max_memory_clk = of.max_memory_clock,
      .num_shader_engines = of.num_shader_engines, .num_shader_arrays_per_engine = of.num_shader_arrays_per_engine,
      .gpu_counter_freq = of.gpu_counter_freq, .cu_active_number = of.cu_active_number,
      .vram_type = of.vram_type, .vram_bit_width = of.vram_bit_width};
  memcpy(info->cu_bitmap, of.cu_bitmap, sizeof info->cu_bitmap);
  return 0;
}

RPL_EXPORT int drmOpenRender(int minor) {
  char path[40];
  uint32_t gpu;
  snprintf(path, sizeof path, "/dev/dri/renderD%d", minor);
  if (drv_device_of_path(path, &gpu) != RPL_RENDER)
    FORWARD(int, -ENODEV, drmOpenRender, minor);
  return drv_device_open(RPL_RENDER, gpu, O_CLOEXEC);
}

RPL_EXPORT int drmClose(int fd) {
  uint32_t gpu;
  if (drv_device_of(fd, &gpu) == RPL_NO_DEVICE)
    FORWARD(int, -EINVAL, drmClose, fd);
  return close(fd);
}

RPL_EXPORT int drmCommandWriteRead(int fd, unsigned long index, void *data, unsigned long size) {
  unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, DRM_COMMAND_BASE + index, size);
  int result;
  while ((result = ioctl(fd, request, data)) == -1 && (errno == EINTR || errno == EAGAIN)) {
  }
  return result ? -errno : 0;
}

// ---- buffer objects ----

// Takes over the reference to the storage.
static int new_object(struct drv_storage *storage, uint32_t gpu, bo_handle *result) {
  struct amdgpu_bo *object = calloc(1, sizeof *object);
  uint64_t size = storage->size;
  drv_storage_hold(storage);
  uint32_t handle = object ? drv_gem_add(storage, gpu) : 0;
  if (!handle) {
    if (!object)
      drv_storage_put(storage);
    drv_storage_put(storage);
    free(object);
    return -ENOMEM;
  }
  object->handle = handle;
  object->gpu = gpu;
  object->size = size;
  object->storage = storage;
  object->references = 1;
  *result = object;
  return 0;
}

RPL_EXPORT int amdgpu_bo_alloc(device_handle device, struct amdgpu_bo_alloc_request *request, bo_handle *object) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_bo_alloc, device, request, object);
  uint32_t handle = 0;
  int error = drv_gem_create(device->gpu, request->alloc_size, request->preferred_heap, request->flags, &handle);
  if (error)
    return -error;
  error = new_object(drv_gem_get(handle, device->gpu), device->gpu, object);
  drv_gem_close(handle);
  return error;
}

RPL_EXPORT int amdgpu_bo_import(device_handle device, unsigned type, uint32_t shared, struct amdgpu_bo_import_result *result) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_bo_import, device, type, shared, result);
  if (type != DMABUF)
    return -EPERM;
  struct drv_storage *storage = drv_share_import((int)shared);
  if (!storage)
    return -EINVAL;
  result->alloc_size = storage->size;
  return new_object(storage, device->gpu, &result->buf_handle);
}

RPL_EXPORT int amdgpu_bo_export(bo_handle object, unsigned type, uint32_t *shared) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_export, object, type, shared);
  if (type == KMS || type == KMS_NO_IMPORT) {
    *shared = object->handle;
    return 0;
  }
  if (type != DMABUF)
    return -EINVAL;
  int fd = drv_share_export(object->storage, O_CLOEXEC);
  if (fd < 0)
    return fd;
  *shared = (uint32_t)fd;
  return 0;
}

// ROCr 7 recognises memory of other processes by its metadata.
RPL_EXPORT int amdgpu_bo_set_metadata(bo_handle object, struct amdgpu_bo_metadata *metadata) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_set_metadata, object, metadata);
  if (metadata->size_metadata > sizeof metadata->umd_metadata)
    return -EINVAL;
  return -drv_share_set_metadata(object->storage, metadata, sizeof *metadata);
}

RPL_EXPORT int amdgpu_bo_query_info(bo_handle object, struct amdgpu_bo_info *info) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_query_info, object, info);
  *info = (struct amdgpu_bo_info){.alloc_size = object->size, .phys_alignment = RPL_PAGE_BYTES};
  info->preferred_heap = object->storage->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
  return -drv_share_get_metadata(object->storage, &info->metadata, sizeof info->metadata);
}

RPL_EXPORT int amdgpu_bo_cpu_map(bo_handle object, void **address) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_cpu_map, object, address);
  pthread_mutex_lock(&lock);
  if (!object->mapped)
    object->mapped = drv_storage_map(object->storage, 0, object->size, 0);
  object->map_count += object->mapped != NULL;
  *address = object->mapped;
  pthread_mutex_unlock(&lock);
  return object->mapped ? 0 : -ENOMEM;
}

RPL_EXPORT int amdgpu_bo_cpu_unmap(bo_handle object) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_cpu_unmap, object);
  pthread_mutex_lock(&lock);
  int error = object->map_count ? 0 : -EINVAL;
  if (!error && --object->map_count == 0) {
    munmap(object->mapped, object->size);
    object->mapped = NULL;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

RPL_EXPORT int amdgpu_bo_free(bo_handle object) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_free, object);
  if (--object->references)
    return 0;
  if (object->mapped)
    munmap(object->mapped, object->size);
  drv_gem_close(object->handle);
  drv_storage_put(object->storage);
  free(object);
  return 0;
}

RPL_EXPORT void amdgpu_bo_inc_ref(bo_handle object) {
  void (*function)(bo_handle) = drv_settings() ? NULL : (void (*)(bo_handle))next("amdgpu_bo_inc_ref");
  if (function)
    function(object);
  else
    object->references++;
}

RPL_EXPORT int amdgpu_bo_va_op(bo_handle object, uint64_t offset, uint64_t size, uint64_t address, uint64_t flags,
                               uint32_t operation) {
  if (!drv_settings())
    FORWARD(int, -EINVAL, amdgpu_bo_va_op, object, offset, size, address, flags, operation);
  (void)flags;                    // access rights are not checked
  uint64_t whole = (size + RPL_PAGE_BYTES - 1) / RPL_PAGE_BYTES * RPL_PAGE_BYTES;
  return -drv_gem_va(object->gpu, object->handle, operation, offset, whole, address);
}

RPL_EXPORT int amdgpu_bo_va_op_raw(device_handle device, bo_handle object, uint64_t offset, uint64_t size, uint64_t address,
                                   uint64_t flags, uint32_t operation) {
  if (!is_emulated(device))
    FORWARD(int, -EINVAL, amdgpu_bo_va_op_raw, device, object, offset, size, address, flags, operation);
  return -drv_gem_va(device->gpu, object ? object->handle : 0, operation, offset, size, address);
}
