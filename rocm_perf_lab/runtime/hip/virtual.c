// Virtual memory management: addresses that are reserved, memory without an address (a dmabuf), and mappings of one at the other.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"

enum { GRANULARITY = 2 << 20, POSIX_FILE = hipMemHandleTypePosixFileDescriptor };

struct ihipMemGenericAllocationHandle {  // *hipMemGenericAllocationHandle_t
  struct hip_device *device;
  hipMemAllocationProp properties;
  uint64_t bytes;
  int dmabuf;
  uint64_t kfd;                   // 0: of another process
  uint32_t references;            // the application's, and one per mapping
  struct ihipMemGenericAllocationHandle *next;
};
struct mapping {
  struct mapping *next;
  uint64_t address, bytes;
  struct ihipMemGenericAllocationHandle *memory;
  uint64_t kfd;
  uint32_t gpus;                  // bit per device with access
};
struct reservation { struct reservation *next; uint64_t address, bytes; };

static struct ihipMemGenericAllocationHandle *handles;
static struct mapping *mappings;
static struct reservation *reservations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ---- memory ----

static void free_kfd(uint64_t kfd) {
  struct kfd_ioctl_free_memory_of_gpu_args args = {kfd};
  hip_kfd(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

static hipError_t add_handle(const struct ihipMemGenericAllocationHandle *content, hipMemGenericAllocationHandle_t *result) {
  struct ihipMemGenericAllocationHandle *handle = malloc(sizeof *handle);
  if (!handle) return hipErrorOutOfMemory;
  *handle = *content;
  handle->references = 1;
  pthread_mutex_lock(&lock);
  handle->next = handles;
  handles = handle;
  pthread_mutex_unlock(&lock);
  *result = handle;
  return hipSuccess;
}

static int is_handle_locked(const struct ihipMemGenericAllocationHandle *handle) {
  const struct ihipMemGenericAllocationHandle *found = handles;
  while (found && found != handle) found = found->next;
  return handle && found;
}

static void release_locked(struct ihipMemGenericAllocationHandle *handle) {
  if (--handle->references) return;
  struct ihipMemGenericAllocationHandle **at = &handles;
  while (*at != handle) at = &(*at)->next;
  *at = handle->next;
  close(handle->dmabuf);
  if (handle->kfd) free_kfd(handle->kfd);
  free(handle);
}

static hipError_t check_properties(const hipMemAllocationProp *properties, struct hip_device **device) {
  if (!properties || properties->type != hipMemAllocationTypePinned || properties->location.type != hipMemLocationTypeDevice)
    return hipErrorInvalidValue;
  *device = hip_device_at(properties->location.id);
  return *device ? hipSuccess : hipErrorInvalidDevice;
}

static hipError_t create(hipMemGenericAllocationHandle_t *result, size_t bytes, const hipMemAllocationProp *properties) {
  struct hip_device *device;
  HIP_TRY(check_properties(properties, &device));
  if (!bytes || bytes % GRANULARITY) return hipErrorInvalidValue;
  struct kfd_ioctl_alloc_memory_of_gpu_args args = {
      .size = bytes, .gpu_id = device->gpu_id,
      .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE};
  if (hip_kfd(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args)) return hipErrorOutOfMemory;
  struct kfd_ioctl_export_dmabuf_args exported = {.handle = args.handle, .flags = O_CLOEXEC};
  if (hip_kfd(AMDKFD_IOC_EXPORT_DMABUF, &exported)) {
    free_kfd(args.handle);
    return hipErrorOutOfMemory;
  }
  struct ihipMemGenericAllocationHandle content = {.device = device, .properties = *properties, .bytes = bytes,
                                                   .dmabuf = (int)exported.dmabuf_fd, .kfd = args.handle};
  return add_handle(&content, result);
}

HIP_API hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes, const hipMemAllocationProp *properties,
                                unsigned long long flags) {
  HIP_ENTER();
  if (!handle || flags) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(create(handle, bytes, properties));
}

HIP_API hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  HIP_ENTER();
  pthread_mutex_lock(&lock);
  int is_known = is_handle_locked(handle);
  if (is_known) release_locked(handle);
  pthread_mutex_unlock(&lock);
  HIP_RETURN(is_known ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *properties,
                                                  hipMemAllocationGranularity_flags option) {
  HIP_ENTER();
  struct hip_device *device;
  if (!bytes || (option != hipMemAllocationGranularityMinimum && option != hipMemAllocationGranularityRecommended))
    HIP_RETURN(hipErrorInvalidValue);
  *bytes = GRANULARITY;
  HIP_RETURN(check_properties(properties, &device));
}

HIP_API hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *properties, hipMemGenericAllocationHandle_t handle) {
  HIP_ENTER();
  pthread_mutex_lock(&lock);
  int is_known = properties && is_handle_locked(handle);
  if (is_known) *properties = handle->properties;
  pthread_mutex_unlock(&lock);
  HIP_RETURN(is_known ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemExportToShareableHandle(void *result, hipMemGenericAllocationHandle_t handle, hipMemAllocationHandleType type,
                                                 unsigned long long flags) {
  HIP_ENTER();
  pthread_mutex_lock(&lock);
  int copy = result && !flags && type == POSIX_FILE && is_handle_locked(handle) ? fcntl(handle->dmabuf, F_DUPFD_CLOEXEC, 0) : -1;
  pthread_mutex_unlock(&lock);
  if (copy < 0) HIP_RETURN(hipErrorInvalidValue);
  *(int *)result = copy;
  return hipSuccess;
}

static struct hip_device *device_of(uint32_t gpu_id) {
  for (int i = 0; i < hip_device_count(); i++)
    if (hip_device_at(i)->gpu_id == gpu_id) return hip_device_at(i);
  return hip_current_device();
}

HIP_API hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *result, void *os_handle,
                                                   hipMemAllocationHandleType type) {
  HIP_ENTER();
  if (!result || !os_handle || type != POSIX_FILE) HIP_RETURN(hipErrorInvalidValue);
  // HIP 6 passes the address of the descriptor, CUDA and HIP 7 the descriptor itself.
  int given = (uint64_t)os_handle < HIP_PAGE_BYTES ? (int)(uint64_t)os_handle : *(int *)os_handle;
  struct kfd_ioctl_get_dmabuf_info_args info = {.dmabuf_fd = (uint32_t)given};
  if (hip_kfd(AMDKFD_IOC_GET_DMABUF_INFO, &info)) HIP_RETURN(hipErrorInvalidValue);
  int copy = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) HIP_RETURN(hipErrorInvalidValue);
  struct hip_device *device = device_of(info.gpu_id);
  struct ihipMemGenericAllocationHandle content = {.device = device, .bytes = info.size, .dmabuf = copy};
  content.properties.type = hipMemAllocationTypePinned;
  content.properties.location = (hipMemLocation){hipMemLocationTypeDevice, device->index};
  HIP_RETURN(add_handle(&content, result));
}

// ---- addresses ----

HIP_API hipError_t hipMemAddressReserve(void **result, size_t bytes, size_t alignment, void *wanted, unsigned long long flags) {
  HIP_ENTER();
  (void)wanted;                   // a hint
  if (!result || !bytes || flags || bytes % HIP_PAGE_BYTES || (alignment & (alignment - 1))) HIP_RETURN(hipErrorInvalidValue);
  struct reservation *reservation = malloc(sizeof *reservation);
  uint64_t address = reservation ? hip_addresses_reserve(bytes, alignment > GRANULARITY ? alignment : GRANULARITY) : 0;
  if (!address) {
    free(reservation);
    HIP_RETURN(hipErrorOutOfMemory);
  }
  pthread_mutex_lock(&lock);
  *reservation = (struct reservation){reservations, address, bytes};
  reservations = reservation;
  pthread_mutex_unlock(&lock);
  *result = (void *)address;
  return hipSuccess;
}

static int is_mapped_locked(uint64_t address, uint64_t bytes) {
  for (const struct mapping *mapping = mappings; mapping; mapping = mapping->next)
    if (mapping->address < address + bytes && address < mapping->address + mapping->bytes) return 1;
  return 0;
}

static int is_reserved_locked(uint64_t address, uint64_t bytes) {
  for (const struct reservation *reservation = reservations; reservation; reservation = reservation->next)
    if (address >= reservation->address && address - reservation->address + bytes <= reservation->bytes) return 1;
  return 0;
}

HIP_API hipError_t hipMemAddressFree(void *address, size_t bytes) {
  HIP_ENTER();
  pthread_mutex_lock(&lock);
  struct reservation **at = &reservations;
  while (*at && (*at)->address != (uint64_t)address) at = &(*at)->next;
  struct reservation *found = *at && (*at)->bytes == bytes && !is_mapped_locked((*at)->address, bytes) ? *at : NULL;
  if (found) {
    *at = found->next;
    munmap(address, bytes);
    free(found);
  }
  pthread_mutex_unlock(&lock);
  HIP_RETURN(found ? hipSuccess : hipErrorInvalidValue);
}

// ---- mappings ----

static hipError_t map_locked(uint64_t address, uint64_t bytes, struct ihipMemGenericAllocationHandle *handle) {
  if (!is_handle_locked(handle) || bytes != handle->bytes || !is_reserved_locked(address, bytes) || is_mapped_locked(address, bytes))
    return hipErrorInvalidValue;
  struct mapping *mapping = calloc(1, sizeof *mapping);
  if (!mapping) return hipErrorOutOfMemory;
  struct kfd_ioctl_import_dmabuf_args args = {.va_addr = address, .gpu_id = handle->device->gpu_id, .dmabuf_fd = (uint32_t)handle->dmabuf};
  if (hip_kfd(AMDKFD_IOC_IMPORT_DMABUF, &args)) {
    free(mapping);
    return hipErrorInvalidValue;
  }
  *mapping = (struct mapping){mappings, address, bytes, handle, args.handle, 0};
  mappings = mapping;
  handle->references++;
  return hipSuccess;
}

HIP_API hipError_t hipMemMap(void *address, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
  HIP_ENTER();
  if (!address || !bytes || offset || flags) HIP_RETURN(hipErrorInvalidValue);
  pthread_mutex_lock(&lock);
  hipError_t error = map_locked((uint64_t)address, bytes, handle);
  pthread_mutex_unlock(&lock);
  HIP_RETURN(error);
}

// Gives the devices with a bit in `allowed` access, and takes it from the others.
static void set_gpus(struct mapping *mapping, uint32_t allowed) {
  for (int i = 0; i < hip_device_count(); i++) {
    if ((mapping->gpus >> i & 1) == (allowed >> i & 1)) continue;
    uint32_t gpu_id = hip_device_at(i)->gpu_id;
    // Both requests have the same argument.
    struct kfd_ioctl_map_memory_to_gpu_args args = {.handle = mapping->kfd, .device_ids_array_ptr = (uint64_t)&gpu_id, .n_devices = 1};
    hip_kfd(allowed >> i & 1 ? AMDKFD_IOC_MAP_MEMORY_TO_GPU : AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
  }
  mapping->gpus = allowed;
}

static void hide(struct mapping *mapping) {
  if (!mapping->gpus) return;
  set_gpus(mapping, 0);
  (void)!mmap((void *)mapping->address, mapping->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  hip_memory_remove_virtual(mapping->address);
}

static void show(struct mapping *mapping, uint32_t allowed) {
  int was_hidden = !mapping->gpus;
  set_gpus(mapping, allowed);
  if (was_hidden) hip_memory_add_virtual(mapping->address, mapping->bytes, mapping->memory->device);
}

HIP_API hipError_t hipMemSetAccess(void *address, size_t bytes, const hipMemAccessDesc *list, size_t count) {
  HIP_ENTER();
  uint64_t begin = (uint64_t)address, covered = 0;
  if (!address || !bytes || !list || !count) HIP_RETURN(hipErrorInvalidValue);
  uint32_t allowed = 0, denied = 0;
  for (size_t i = 0; i < count; i++) {
    if (list[i].location.type != hipMemLocationTypeDevice || !hip_device_at(list[i].location.id)) HIP_RETURN(hipErrorInvalidValue);
    *(list[i].flags == hipMemAccessFlagsProtNone ? &denied : &allowed) |= 1u << list[i].location.id;
  }
  pthread_mutex_lock(&lock);
  for (struct mapping *mapping = mappings; mapping; mapping = mapping->next) {
    if (mapping->address < begin || mapping->address + mapping->bytes > begin + bytes) continue;
    covered += mapping->bytes;
    uint32_t gpus = (mapping->gpus | allowed) & ~denied;
    if (gpus) show(mapping, gpus);
    else hide(mapping);
  }
  pthread_mutex_unlock(&lock);
  HIP_RETURN(covered == bytes ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *address) {
  HIP_ENTER();
  if (!flags || !location || !address || !hip_device_at(location->id)) HIP_RETURN(hipErrorInvalidValue);
  pthread_mutex_lock(&lock);
  const struct mapping *found = mappings;
  while (found && (uint64_t)address - found->address >= found->bytes) found = found->next;
  if (found) *flags = found->gpus >> location->id & 1 ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
  pthread_mutex_unlock(&lock);
  HIP_RETURN(found ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address) {
  HIP_ENTER();
  if (!handle || !address) HIP_RETURN(hipErrorInvalidValue);
  pthread_mutex_lock(&lock);
  const struct mapping *found = mappings;
  while (found && (uint64_t)address - found->address >= found->bytes) found = found->next;
  if (found) {
    *handle = found->memory;
    found->memory->references++;
  }
  pthread_mutex_unlock(&lock);
  HIP_RETURN(found ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemUnmap(void *address, size_t bytes) {
  HIP_ENTER();
  for (int i = 0; i < hip_device_count(); i++) hip_device_synchronize(hip_device_at(i));
  uint64_t begin = (uint64_t)address, covered = 0;
  pthread_mutex_lock(&lock);
  for (struct mapping **at = &mappings; *at;) {
    struct mapping *mapping = *at;
    if (mapping->address < begin || mapping->address + mapping->bytes > begin + bytes) {
      at = &mapping->next;
      continue;
    }
    *at = mapping->next;
    covered += mapping->bytes;
    hide(mapping);
    free_kfd(mapping->kfd);
    release_locked(mapping->memory);
    free(mapping);
  }
  pthread_mutex_unlock(&lock);
  HIP_RETURN(covered && covered == bytes ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemGetHandleForAddressRange(void *result, hipDeviceptr_t address, size_t bytes, hipMemRangeHandleType type,
                                                  unsigned long long flags) {
  HIP_ENTER();
  struct hip_memory block;
  if (!result || flags || type != hipMemRangeHandleTypeDmaBufFd || !hip_memory_find((const void *)address, &block))
    HIP_RETURN(hipErrorInvalidValue);
  if (block.address != (uint64_t)address || block.mapped_size < bytes || !block.handle) HIP_RETURN(hipErrorInvalidValue);
  struct kfd_ioctl_export_dmabuf_args exported = {.handle = block.handle, .flags = O_CLOEXEC};
  if (hip_kfd(AMDKFD_IOC_EXPORT_DMABUF, &exported)) HIP_RETURN(hipErrorInvalidValue);
  *(int *)result = (int)exported.dmabuf_fd;
  return hipSuccess;
}

void hip_virtual_forget(void) {
  pthread_mutex_init(&lock, NULL);
  handles = NULL;
  mappings = NULL;
  reservations = NULL;
}
