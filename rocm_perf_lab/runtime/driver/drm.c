// The ioctls of the DRM render nodes that compute runtimes and management tools use: properties, buffer objects, virtual
// addresses.
#define _GNU_SOURCE
#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "drm.h"

enum { MAJOR = 3, MINOR = 61, FIRST_CAPACITY = 64, KHZ = 1000, COUNTER_KHZ = 1000000 / RPL_TICK_NS, AMD = 0x1002 };
enum { ENGINES = 4, ARRAYS = 4, ENGINE_CUS = 10, VGPRS = 512, PTE_FRAGMENT = 2 << 20, HBM_BITS = 8192, GTT_SHIFT = 1 };
enum { COMPUTE_RINGS = 8, DMA_RINGS = 2, IB_ALIGNMENT = 32, GFX_VERSION = 9 };

// ---- buffer objects by handle ----

struct object { struct drv_storage *storage; uint32_t gpu; };
static struct object *objects;
static uint32_t capacity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Takes over the reference to the storage. 0: no memory.
uint32_t drv_gem_add(struct drv_storage *storage, uint32_t gpu) {
  pthread_mutex_lock(&lock);
  uint32_t handle = 1;
  while (handle < capacity && objects[handle].storage)
    handle++;
  if (handle >= capacity) {
    uint32_t larger = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct object *moved = realloc(objects, larger * sizeof *objects);
    if (moved) {
      memset(moved + capacity, 0, (larger - capacity) * sizeof *objects);
      objects = moved;
      capacity = larger;
    }
  }
  int is_added = handle < capacity;
  if (is_added)
    objects[handle] = (struct object){storage, gpu};
  pthread_mutex_unlock(&lock);
  if (is_added)
    return handle;
  drv_storage_put(storage);
  return 0;
}

// With a new reference; NULL: no such object of this GPU.
struct drv_storage *drv_gem_get(uint32_t handle, uint32_t gpu) {
  pthread_mutex_lock(&lock);
  int is_there = handle && handle < capacity && objects[handle].storage && objects[handle].gpu == gpu;
  struct drv_storage *storage = is_there ? objects[handle].storage : NULL;
  if (storage)
    drv_storage_hold(storage);
  pthread_mutex_unlock(&lock);
  return storage;
}

int drv_gem_close(uint32_t handle) {
  struct drv_storage *storage = NULL;
  pthread_mutex_lock(&lock);
  if (handle && handle < capacity) {
    storage = objects[handle].storage;
    objects[handle].storage = NULL;
  }
  pthread_mutex_unlock(&lock);
  drv_storage_put(storage);
  return storage ? 0 : EINVAL;
}

int drv_gem_create(uint32_t gpu, uint64_t size, uint64_t domains, uint64_t flags, uint32_t *handle) {
  uint32_t kind = domains & AMDGPU_GEM_DOMAIN_VRAM ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT;
  if (!size || !(domains & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)))
    return EINVAL;
  if (!(flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
    kind |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
  int error;
  struct drv_storage *storage = drv_storage_new(gpu, kind, (size + RPL_PAGE_BYTES - 1) / RPL_PAGE_BYTES * RPL_PAGE_BYTES, &error);
  if (!storage)
    return error;
  *handle = drv_gem_add(storage, gpu);
  return *handle ? 0 : ENOMEM;
}

int drv_gem_va(uint32_t gpu, uint32_t handle, uint32_t operation, uint64_t offset, uint64_t size, uint64_t address) {
  if (operation == AMDGPU_VA_OP_UNMAP || operation == AMDGPU_VA_OP_CLEAR) {
    int error = size && (size | address) % RPL_PAGE_BYTES == 0 ? drv_memory_displace(address, size, gpu) : EINVAL;
    return error == ENOENT && operation == AMDGPU_VA_OP_CLEAR ? 0 : error;
  }
  if (operation != AMDGPU_VA_OP_MAP && operation != AMDGPU_VA_OP_REPLACE)
    return EINVAL;
  struct drv_storage *storage = drv_gem_get(handle, gpu);
  if (!storage)
    return ENOENT;
  if (operation == AMDGPU_VA_OP_REPLACE)
    drv_memory_displace(address, size, gpu);
  int error = drv_memory_place(storage, offset, size, address, gpu);
  drv_storage_put(storage);
  return error;
}

// Descriptors of a device map the process's own memory file. Memory of another process is not in it: mmap() is told by the offset.
int drv_gem_mmap(uint32_t handle, uint32_t gpu, uint64_t *offset) {
  struct drv_storage *storage = drv_gem_get(handle, gpu);
  if (!storage)
    return ENOENT;
  *offset = storage->file < 0 ? storage->offset : RPL_FOREIGN | (uint64_t)handle << RPL_FOREIGN_SHIFT;
  drv_storage_put(storage);
  return 0;
}

void *drv_gem_map_foreign(uint32_t gpu, uint64_t offset, const struct drv_mapping_request *request) {
  uint64_t inside = offset & ((UINT64_C(1) << RPL_FOREIGN_SHIFT) - 1);
  struct drv_storage *storage = drv_gem_get((uint32_t)((offset - RPL_FOREIGN) >> RPL_FOREIGN_SHIFT), gpu);
  int is_inside = storage && storage->file >= 0 && inside < storage->size && request->size <= storage->size - inside;
  void *mapped = MAP_FAILED;
  if (is_inside)
    mapped = (void *)syscall(SYS_mmap, request->at, request->size, request->protection, request->flags, storage->file,
                             storage->offset + inside);
  else
    errno = EINVAL;
  drv_storage_put(storage);
  if (mapped != MAP_FAILED)
    madvise(mapped, request->size, MADV_DONTFORK);
  return mapped;
}

// ---- properties ----

static struct drm_amdgpu_info_device describe(uint32_t index) {
  const struct drv_gpu *gpu = &drv_settings()->gpus[index];
  struct drm_amdgpu_info_device device = {
      .device_id = gpu->device_id,
      .external_rev = 1,
      .family = gpu->family_id,
      .num_shader_engines = gpu->xcds ? gpu->xcds * ENGINES : ENGINES,
      .num_shader_arrays_per_engine = 1,
      .gpu_counter_freq = COUNTER_KHZ,
      .max_engine_clock = (uint64_t)gpu->clock_mhz * KHZ,
      .max_memory_clock = (uint64_t)gpu->memory_clock_mhz * KHZ,
      .cu_active_number = gpu->compute_units,
      .ids_flags = 0,
      .virtual_address_offset = RPL_LARGE_PAGE_BYTES,
      .virtual_address_max = UINT64_C(1) << 47,
      .virtual_address_alignment = RPL_PAGE_BYTES,
      .pte_fragment_size = PTE_FRAGMENT,
      .gart_page_size = RPL_PAGE_BYTES,
      .vram_type = AMDGPU_VRAM_TYPE_HBM,
      .vram_bit_width = HBM_BITS,
      .wave_front_size = gpu->wave_size,
      .num_shader_visible_vgprs = VGPRS,
      .num_cu_per_sh = ENGINE_CUS,
  };
  uint32_t left = gpu->compute_units;
  for (uint32_t i = 0; i < ENGINES * ARRAYS; i++) {
    uint32_t here = left < ENGINE_CUS ? left : ENGINE_CUS;
    device.cu_bitmap[i % ENGINES][i / ENGINES] = (1u << here) - 1;
    left -= here;
  }
  return device;
}

static uint64_t gtt_bytes(void) { return ((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE)) >> GTT_SHIFT; }

static struct drm_amdgpu_memory_info memory_of(uint32_t gpu) {
  uint64_t used, system, total = drv_settings()->gpus[gpu].memory_bytes;
  drv_storage_usage(gpu, &used, &system);
  struct drm_amdgpu_heap_info vram = {total, total, used, total / 4 * 3};
  return (struct drm_amdgpu_memory_info){vram, vram, {gtt_bytes(), gtt_bytes(), system, gtt_bytes() / 4 * 3}};
}

struct answer { void *to; uint32_t size; };

static int give(struct answer answer, const void *from, size_t size) {
  if (!answer.to)
    return EFAULT;
  memcpy(answer.to, from, size < answer.size ? size : answer.size);
  return 0;
}

static int give_word(struct answer answer, uint64_t value, size_t size) { return give(answer, &value, size); }

static int hardware_ip(struct answer answer, uint32_t type) {
  struct drm_amdgpu_info_hw_ip ip = {.ib_start_alignment = IB_ALIGNMENT, .ib_size_alignment = IB_ALIGNMENT};
  if (type == AMDGPU_HW_IP_COMPUTE)
    ip.hw_ip_version_major = GFX_VERSION, ip.available_rings = (1u << COMPUTE_RINGS) - 1;
  else if (type == AMDGPU_HW_IP_DMA)
    ip.hw_ip_version_major = 4, ip.available_rings = (1u << DMA_RINGS) - 1;
  else if (type >= AMDGPU_HW_IP_NUM)
    return EINVAL;
  return give(answer, &ip, sizeof ip);
}

static int sensor(struct answer answer, uint32_t gpu, uint32_t type) {
  const struct drv_gpu *of = &drv_settings()->gpus[gpu];
  switch (type) {
    case AMDGPU_INFO_SENSOR_GFX_SCLK:
    case AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_SCLK:
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK: return give_word(answer, of->clock_mhz, sizeof(uint32_t));
    case AMDGPU_INFO_SENSOR_GFX_MCLK:
    case AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_MCLK:
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK: return give_word(answer, of->memory_clock_mhz, sizeof(uint32_t));
    case AMDGPU_INFO_SENSOR_GPU_LOAD: return give_word(answer, 0, sizeof(uint32_t));
    default: return EOPNOTSUPP;   // an emulated GPU has no temperature, power or voltage
  }
}

int drv_drm_info(uint32_t gpu, const struct drm_amdgpu_info *query) {
  struct answer answer = {(void *)query->return_pointer, query->return_size};
  struct drm_amdgpu_memory_info memory = memory_of(gpu);
  struct drm_amdgpu_info_device device;
  struct drm_amdgpu_info_vram_gtt sizes = {memory.vram.total_heap_size, memory.vram.total_heap_size, memory.gtt.total_heap_size};
  struct drm_amdgpu_info_firmware firmware = {1, 1};
  switch (query->query) {
    case AMDGPU_INFO_ACCEL_WORKING: return give_word(answer, 1, sizeof(uint32_t));
    case AMDGPU_INFO_HW_IP_INFO: return hardware_ip(answer, query->query_hw_ip.type);
    case AMDGPU_INFO_HW_IP_COUNT: {
      uint32_t type = query->query_hw_ip.type;
      return give_word(answer, type == AMDGPU_HW_IP_COMPUTE || type == AMDGPU_HW_IP_DMA, sizeof(uint32_t));
    }
    case AMDGPU_INFO_TIMESTAMP: return give_word(answer, drv_ticks(), sizeof(uint64_t));
    case AMDGPU_INFO_FW_VERSION: return give(answer, &firmware, sizeof firmware);
    case AMDGPU_INFO_NUM_BYTES_MOVED:
    case AMDGPU_INFO_NUM_EVICTIONS:
    case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
    case AMDGPU_INFO_VRAM_LOST_COUNTER:
    case AMDGPU_INFO_RAS_ENABLED_FEATURES: return give_word(answer, 0, sizeof(uint64_t));
    case AMDGPU_INFO_VRAM_USAGE:
    case AMDGPU_INFO_VIS_VRAM_USAGE: return give_word(answer, memory.vram.heap_usage, sizeof(uint64_t));
    case AMDGPU_INFO_GTT_USAGE: return give_word(answer, memory.gtt.heap_usage, sizeof(uint64_t));
    case AMDGPU_INFO_VRAM_GTT: return give(answer, &sizes, sizeof sizes);
    case AMDGPU_INFO_DEV_INFO:
      device = describe(gpu);
      return give(answer, &device, sizeof device);
    case AMDGPU_INFO_MEMORY: return give(answer, &memory, sizeof memory);
    case AMDGPU_INFO_SENSOR: return sensor(answer, gpu, query->sensor_info.type);
    case AMDGPU_INFO_READ_MMR_REG:
      // Registers describe tiling of images; none of them is emulated.
      if (!answer.to || query->read_mmr_reg.count > answer.size / sizeof(uint32_t))
        return EINVAL;
      memset(answer.to, 0, query->read_mmr_reg.count * sizeof(uint32_t));
      return 0;
    default: return EINVAL;
  }
}

static void give_text(char *to, size_t *size, const char *text) {
  size_t length = strlen(text);
  if (to)
    memcpy(to, text, length < *size ? length : *size);
  *size = length;
}

static int version(struct drm_version *args) {
  args->version_major = MAJOR;
  args->version_minor = MINOR;
  args->version_patchlevel = 0;
  give_text(args->name, &args->name_len, "amdgpu");
  give_text(args->date, &args->date_len, "0");
  give_text(args->desc, &args->desc_len, "AMD GPU");
  return 0;
}

static int fd_to_handle(uint32_t gpu, struct drm_prime_handle *args) {
  struct drv_storage *storage = drv_share_import(args->fd);
  args->handle = storage ? drv_gem_add(storage, gpu) : 0;
  return !storage ? EINVAL : args->handle ? 0 : ENOMEM;
}

static int handle_to_fd(uint32_t gpu, struct drm_prime_handle *args) {
  struct drv_storage *storage = drv_gem_get(args->handle, gpu);
  if (!storage)
    return ENOENT;
  int fd = drv_share_export(storage, (int)args->flags);
  drv_storage_put(storage);
  args->fd = fd;
  return fd < 0 ? -fd : 0;
}

static int gem_create(uint32_t gpu, union drm_amdgpu_gem_create *args) {
  uint32_t handle = 0;
  int error = drv_gem_create(gpu, args->in.bo_size, args->in.domains, args->in.domain_flags, &handle);
  if (!error)
    args->out.handle = handle;
  return error;
}

static int gem_mmap(uint32_t gpu, union drm_amdgpu_gem_mmap *args) {
  uint64_t offset = 0;
  int error = drv_gem_mmap(args->in.handle, gpu, &offset);
  if (!error)
    args->out.addr_ptr = offset;
  return error;
}

static int gem_va(uint32_t gpu, const struct drm_amdgpu_gem_va *args) {
  return drv_gem_va(gpu, args->handle, args->operation, args->offset_in_bo, args->map_size, args->va_address);
}

static int gem_metadata(uint32_t gpu, struct drm_amdgpu_gem_metadata *args) {
  struct drv_storage *storage = drv_gem_get(args->handle, gpu);
  int error = EINVAL;
  if (!storage)
    return ENOENT;
  if (args->op == AMDGPU_GEM_METADATA_OP_GET_METADATA)
    error = drv_share_get_metadata(storage, &args->data, sizeof args->data);
  else if (args->op == AMDGPU_GEM_METADATA_OP_SET_METADATA && args->data.data_size_bytes <= sizeof args->data.data)
    error = drv_share_set_metadata(storage, &args->data, sizeof args->data);
  drv_storage_put(storage);
  return error;
}

static int gem_op(uint32_t gpu, const struct drm_amdgpu_gem_op *args) {
  struct drv_storage *storage = drv_gem_get(args->handle, gpu);
  int error = args->op == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO ? 0 : EINVAL;
  if (!storage)
    return ENOENT;
  if (!error) {
    struct drm_amdgpu_gem_create_in *info = (void *)(uintptr_t)args->value;
    *info = (struct drm_amdgpu_gem_create_in){.bo_size = storage->size, .alignment = RPL_PAGE_BYTES};
    info->domains = storage->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
  }
  drv_storage_put(storage);
  return error;
}

static int of_amdgpu(uint32_t gpu, unsigned number, void *args) {
  switch (number) {
    case DRM_AMDGPU_INFO: return drv_drm_info(gpu, args);
    case DRM_AMDGPU_GEM_CREATE: return gem_create(gpu, args);
    case DRM_AMDGPU_GEM_MMAP: return gem_mmap(gpu, args);
    case DRM_AMDGPU_GEM_VA: return gem_va(gpu, args);
    case DRM_AMDGPU_GEM_METADATA: return gem_metadata(gpu, args);
    case DRM_AMDGPU_GEM_OP: return gem_op(gpu, args);
    default: return EINVAL;
  }
}

int drv_drm_ioctl(uint32_t gpu, unsigned long request, void *args) {
  unsigned number = _IOC_NR(request);
  int error = EINVAL;
  if (gpu >= drv_settings()->gpu_count || !args)
    error = EFAULT;
  else if (number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END)
    error = of_amdgpu(gpu, number - DRM_COMMAND_BASE, args);
  else if (number == _IOC_NR(DRM_IOCTL_VERSION))
    error = version(args);
  else if (number == _IOC_NR(DRM_IOCTL_GEM_CLOSE))
    error = drv_gem_close(((struct drm_gem_close *)args)->handle);
  else if (number == _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE))
    error = fd_to_handle(gpu, args);
  else if (number == _IOC_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD))
    error = handle_to_fd(gpu, args);
  drv_log(error ? 1 : 2, "DRM ioctl %#x -> %d", number, error);
  return error;
}

void drv_drm_forget(void) {
  pthread_mutex_init(&lock, NULL);
  objects = NULL;                 // not freed: another thread may have been moving it
  capacity = 0;
}
