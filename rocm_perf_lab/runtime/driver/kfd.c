// The ioctls of /dev/kfd, by number: newer runtimes pass larger structures, and that of SVM has a variable size.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include "system.h"

// Version 1.17: ages of events (1.14), virtual memory of DRM (1.15), contiguous allocations, SDMA queues by engine.
enum { MAJOR = 1, MINOR = 17, SMALLEST_GPU_ADDRESS = 0x4000, ADDRESS_BITS = 47, SPAN_BITS = 32, AVAILABLE_UNIT = 2 << 20 };
enum { MAX_QUEUES = 1024, NANOSECONDS = 1000000000, GB_ADDR_CONFIG = 0x2a114042 };
enum { NOT_SUPPORTED = 524 };     // ENOTSUPP of the kernel
enum { IPC_IMPORT = 0x80, IPC_EXPORT = 0x81, GET_APERTURES = 0x06, DEBUG_FIRST = 0x0d, DEBUG_LAST = 0x10 };
enum { CU_MASK_UNIT = 32 };

// Of AMD's out-of-tree driver, which the runtime's IPC functions use by default.
struct ipc_export { uint64_t handle; uint32_t share_handle[4], gpu_id, flags; };
struct ipc_import { uint64_t handle, va_addr, mmap_offset; uint32_t share_handle[4], gpu_id, flags; };

struct queue { uint32_t is_used, gpu, slot, has_gws; };
static struct queue queues[MAX_QUEUES];
static uint8_t doorbell_used[RPL_MAX_GPUS][RPL_DOORBELLS];
static uint64_t *doorbells[RPL_MAX_GPUS];
static uint32_t runtime_enabled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int get_version(void *data) {
  *(struct kfd_ioctl_get_version_args *)data = (struct kfd_ioctl_get_version_args){MAJOR, MINOR};
  return 0;
}

static int get_clock_counters(void *data) {
  struct kfd_ioctl_get_clock_counters_args *args = data;
  args->cpu_clock_counter = drv_nanoseconds();
  args->gpu_clock_counter = drv_gpu_index(args->gpu_id) < 0 ? 0 : args->cpu_clock_counter / RPL_TICK_NS;
  args->system_clock_counter = args->cpu_clock_counter / RPL_TICK_NS * RPL_TICK_NS;
  args->system_clock_freq = NANOSECONDS;
  return 0;
}

// ---- queues ----

static int has_queues(void) {
  for (int i = 0; i < MAX_QUEUES; i++)
    if (queues[i].is_used)
      return 1;
  return 0;
}

static int check_queue(const struct kfd_ioctl_create_queue_args *args) {
  uint32_t size = args->ring_size;
  if (args->queue_percentage > KFD_MAX_QUEUE_PERCENTAGE || args->queue_priority > KFD_MAX_QUEUE_PRIORITY || (size & (size - 1)))
    return EINVAL;
  if (args->queue_type > KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID)
    return NOT_SUPPORTED;
  if (drv_gpu_index(args->gpu_id) < 0)
    return EINVAL;
  uint64_t ring = args->ring_base_address, read = args->read_pointer_address, write = args->write_pointer_address;
  if (!drv_is_mapped(read, read + sizeof(uint64_t)) || !drv_is_mapped(write, write + sizeof(uint64_t)))
    return EFAULT;
  return ring && size && !drv_is_mapped(ring, ring + size) ? EFAULT : 0;
}

static int map_doorbells(uint32_t gpu) {
  uint64_t offset = RPL_DOORBELL_OFFSET + gpu * (uint64_t)RPL_DOORBELL_BYTES;
  if (!doorbells[gpu])
    doorbells[gpu] = drv_map_file(drv_memory_file(), offset, RPL_DOORBELL_BYTES, 0);
  return doorbells[gpu] ? 0 : ENOMEM;
}

// Reserves an id and a doorbell. The entry is in use from now on, so that others do not take it while the queue starts.
static int reserve_queue(uint32_t gpu, uint32_t *id, uint32_t *slot) {
  for (*id = 0; *id < MAX_QUEUES && queues[*id].is_used; (*id)++) {
  }
  for (*slot = 0; *slot < RPL_DOORBELLS && doorbell_used[gpu][*slot]; (*slot)++) {
  }
  if (*id == MAX_QUEUES || *slot == RPL_DOORBELLS)
    return ENOMEM;
  int error = map_doorbells(gpu);
  if (error)
    return error;
  queues[*id] = (struct queue){1, gpu, *slot, 0};
  doorbell_used[gpu][*slot] = 1;
  doorbells[gpu][*slot] = 0;
  return 0;
}

static void release_queue(uint32_t id) {
  pthread_mutex_lock(&lock);
  doorbell_used[queues[id].gpu][queues[id].slot] = 0;
  queues[id].is_used = 0;
  pthread_mutex_unlock(&lock);
}

static int create_queue(void *data) {
  struct kfd_ioctl_create_queue_args *args = data;
  int error = check_queue(args);
  if (error)
    return error;
  uint32_t gpu = (uint32_t)drv_gpu_index(args->gpu_id), slot = 0, id = 0;
  pthread_mutex_lock(&lock);
  error = reserve_queue(gpu, &id, &slot);
  pthread_mutex_unlock(&lock);
  if (error)
    return error;
  args->queue_id = id;
  args->doorbell_offset = RPL_DOORBELL_OFFSET + gpu * (uint64_t)RPL_DOORBELL_BYTES + slot * sizeof(uint64_t);
  error = drv_queue_create(args, &doorbells[gpu][slot]);
  if (error)
    release_queue(id);
  drv_log(1, "queue %u of type %u on GPU %u: ring %#llx+%#x -> %d", id, args->queue_type, gpu, args->ring_base_address,
          args->ring_size, error);
  return error;
}

static int is_queue(uint32_t id) { return id < MAX_QUEUES && queues[id].is_used; }

static int destroy_queue(void *data) {
  uint32_t id = ((struct kfd_ioctl_destroy_queue_args *)data)->queue_id;
  if (!is_queue(id))
    return EINVAL;
  int error = drv_queue_destroy(id);
  if (!error)
    release_queue(id);
  return error;
}

static int update_queue(void *data) {
  struct kfd_ioctl_update_queue_args *args = data;
  if (args->queue_percentage > KFD_MAX_QUEUE_PERCENTAGE || args->queue_priority > KFD_MAX_QUEUE_PRIORITY ||
      (args->ring_size & (args->ring_size - 1)))
    return EINVAL;
  if (!is_queue(args->queue_id))
    return EFAULT;
  return drv_queue_update(args->queue_id, args->ring_base_address, args->ring_size, args->queue_percentage);
}

static int set_cu_mask(void *data) {
  const struct kfd_ioctl_set_cu_mask_args *args = data;
  if (!args->num_cu_mask || args->num_cu_mask % CU_MASK_UNIT)
    return EINVAL;
  return is_queue(args->queue_id) && args->cu_mask_ptr ? 0 : EFAULT;
}

static int alloc_queue_gws(void *data) {
  struct kfd_ioctl_alloc_queue_gws_args *args = data;
  pthread_mutex_lock(&lock);
  int error = !is_queue(args->queue_id) ? EINVAL : 0;
  struct queue *queue = &queues[args->queue_id % MAX_QUEUES];
  if (!error && args->num_gws && queue->has_gws)
    error = EBUSY;
  if (!error && !args->num_gws && !queue->has_gws)
    error = EINVAL;
  if (!error)
    queue->has_gws = args->num_gws != 0;
  pthread_mutex_unlock(&lock);
  args->first_gws = 0;
  return error;
}

uint64_t *drv_queue_wave_syncs(uint32_t queue_id) {
  static uint64_t syncs[RPL_MAX_GPUS][RPL_WAVE_SYNCS];
  pthread_mutex_lock(&lock);
  const struct queue *queue = is_queue(queue_id) && queues[queue_id].has_gws ? &queues[queue_id] : NULL;
  uint64_t *found = queue ? syncs[queue->gpu] : NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

// Wavefronts are never suspended, so there is no saved state to look at; KFD refuses it for active queues as well.
static int refuse(void *data) {
  (void)data;
  return EINVAL;
}

static int refuse_permission(void *data) {
  (void)data;
  return EPERM;
}

// Checkpoints need a capability that the emulated driver grants to nobody.
static int refuse_access(void *data) {
  (void)data;
  return EACCES;
}

// ---- properties of GPUs ----

static struct kfd_process_device_apertures apertures_of(uint32_t gpu) {
  uint64_t lds = (uint64_t)RPL_LDS_APERTURE << RPL_APERTURE_SHIFT, scratch = (uint64_t)RPL_SCRATCH_APERTURE << RPL_APERTURE_SHIFT;
  uint64_t span = (UINT64_C(1) << SPAN_BITS) - 1;
  // All addresses of the host: the runtime then gives memory the same address on the host and on all GPUs.
  return (struct kfd_process_device_apertures){lds, lds + span, scratch, scratch + span, SMALLEST_GPU_ADDRESS,
                                               (UINT64_C(1) << ADDRESS_BITS) - 1, drv_settings()->gpus[gpu].gpu_id, 0};
}

static int get_apertures(void *data) {
  struct kfd_ioctl_get_process_apertures_args *args = data;
  uint32_t count = drv_settings()->gpu_count;
  args->num_of_nodes = count < NUM_OF_SUPPORTED_GPUS ? count : NUM_OF_SUPPORTED_GPUS;
  for (uint32_t i = 0; i < args->num_of_nodes; i++)
    args->process_apertures[i] = apertures_of(i);
  return 0;
}

static int get_apertures_new(void *data) {
  struct kfd_ioctl_get_process_apertures_new_args *args = data;
  uint32_t count = drv_settings()->gpu_count;
  if (!args->num_of_nodes) {
    args->num_of_nodes = count;
    return 0;
  }
  struct kfd_process_device_apertures *apertures = (void *)args->kfd_process_device_apertures_ptr;
  if (!apertures)
    return EFAULT;
  if (args->num_of_nodes > count)
    args->num_of_nodes = count;
  for (uint32_t i = 0; i < args->num_of_nodes; i++)
    apertures[i] = apertures_of(i);
  return 0;
}

static int get_tile_config(void *data) {
  struct kfd_ioctl_get_tile_config_args *args = data;
  args->num_tile_configs = args->num_macro_tile_configs = 0;
  args->gb_addr_config = GB_ADDR_CONFIG;
  args->num_banks = 4;
  args->num_ranks = 1;
  return drv_gpu_index(args->gpu_id) < 0 ? EINVAL : 0;
}

static int set_memory_policy(void *data) {
  const struct kfd_ioctl_set_memory_policy_args *args = data;
  int is_known = args->default_policy <= KFD_IOC_CACHE_POLICY_NONCOHERENT &&
                 args->alternate_policy <= KFD_IOC_CACHE_POLICY_NONCOHERENT;
  return is_known && drv_gpu_index(args->gpu_id) >= 0 ? 0 : EINVAL;
}

static int set_trap_handler(void *data) {
  return drv_gpu_index(((struct kfd_ioctl_set_trap_handler_args *)data)->gpu_id) < 0 ? EINVAL : 0;
}

// Scratch memory is the emulator's own; the runtime's is not used.
static int set_scratch_backing_va(void *data) {
  return drv_gpu_index(((struct kfd_ioctl_set_scratch_backing_va_args *)data)->gpu_id) < 0 ? EINVAL : 0;
}

static int acquire_vm(void *data) {
  const struct kfd_ioctl_acquire_vm_args *args = data;
  uint32_t gpu;
  int is_node = drv_device_of((int)args->drm_fd, &gpu) == RPL_RENDER;
  return is_node && drv_gpu_index(args->gpu_id) == (int)gpu ? 0 : EINVAL;
}

static int set_xnack_mode(void *data) {
  pthread_mutex_lock(&lock);
  int error = drv_set_xnack(data, has_queues());
  pthread_mutex_unlock(&lock);
  return error;
}

static int runtime_enable(void *data) {
  struct kfd_ioctl_runtime_enable_args *args = data;
  int error = 0;
  pthread_mutex_lock(&lock);
  if (!(args->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK))
    runtime_enabled = 0;
  else if (runtime_enabled)
    error = EBUSY;
  else if (has_queues())
    error = EEXIST;
  else
    runtime_enabled = 1;
  args->capabilities_mask = 0;
  pthread_mutex_unlock(&lock);
  return error;
}

// ---- memory ----

static int alloc_memory(void *data) { return drv_memory_allocate(data); }
static int free_memory(void *data) { return drv_memory_free(((struct kfd_ioctl_free_memory_of_gpu_args *)data)->handle); }
static int map_memory(void *data) { return drv_memory_map(data); }
static int unmap_memory(void *data) { return drv_memory_unmap(data); }
static int svm(void *data) { return drv_svm(data); }

static int available_memory(void *data) {
  struct kfd_ioctl_get_available_memory_args *args = data;
  int gpu = drv_gpu_index(args->gpu_id);
  if (gpu < 0)
    return EINVAL;
  uint64_t used, system, total = drv_settings()->gpus[gpu].memory_bytes;
  drv_storage_usage((uint32_t)gpu, &used, &system);
  args->available = (used < total ? total - used : 0) / AVAILABLE_UNIT * AVAILABLE_UNIT;
  return 0;
}

static int export_dmabuf(void *data) {
  struct kfd_ioctl_export_dmabuf_args *args = data;
  struct drv_storage *storage = drv_memory_storage(args->handle);
  if (!storage)
    return EINVAL;
  int fd = drv_share_export(storage, (int)args->flags);
  drv_storage_put(storage);
  if (fd < 0)
    return -fd;
  args->dmabuf_fd = (uint32_t)fd;
  return 0;
}

static int get_dmabuf_info(void *data) {
  struct kfd_ioctl_get_dmabuf_info_args *args = data;
  uint64_t size;
  uint32_t gpu, flags;
  int error = drv_share_describe((int)args->dmabuf_fd, &size, &gpu, &flags);
  if (error)
    return error;
  args->size = size;
  args->gpu_id = drv_settings()->gpus[gpu].gpu_id;
  args->flags = flags;
  args->metadata_size = 0;
  return 0;
}

static int import_dmabuf(void *data) {
  struct kfd_ioctl_import_dmabuf_args *args = data;
  int gpu = drv_gpu_index(args->gpu_id);
  if (gpu < 0)
    return EINVAL;
  if (fcntl((int)args->dmabuf_fd, F_GETFD) < 0)
    return EBADF;
  struct drv_storage *storage = drv_share_import((int)args->dmabuf_fd);
  uint64_t handle;
  int error = storage ? drv_memory_adopt(storage, (uint32_t)gpu, args->va_addr, &handle) : EINVAL;
  if (!error)
    args->handle = handle;
  return error;
}

static int ipc_export(void *data) {
  struct ipc_export *args = data;
  struct drv_storage *storage = drv_memory_storage(args->handle);
  if (!storage)
    return EINVAL;
  int error = drv_ipc_export(storage, args->share_handle);
  drv_storage_put(storage);
  return error;
}

static int ipc_import(void *data) {
  struct ipc_import *args = data;
  struct drv_storage *storage = drv_ipc_import(args->share_handle);
  if (!storage)
    return EINVAL;
  uint32_t gpu = storage->gpu, flags = storage->flags;
  uint64_t offset = storage->file < 0 ? storage->offset : 0, handle;
  int error = drv_memory_adopt(storage, gpu, args->va_addr, &handle);
  if (error)
    return error;
  args->handle = handle;
  args->mmap_offset = offset;
  args->gpu_id = drv_settings()->gpus[gpu].gpu_id;
  args->flags = flags;
  return 0;
}

// ---- events ----

static int create_event(void *data) { return drv_event_create(data); }
static int destroy_event(void *data) { return drv_event_destroy(((struct kfd_ioctl_destroy_event_args *)data)->event_id); }
static int set_event(void *data) { return drv_event_set_by_host(((struct kfd_ioctl_set_event_args *)data)->event_id); }
static int reset_event(void *data) { return drv_event_reset(((struct kfd_ioctl_reset_event_args *)data)->event_id); }
static int wait_events(void *data) { return drv_events_wait(data); }

static int smi_events(void *data) {
  struct kfd_ioctl_smi_events_args *args = data;
  int gpu = drv_gpu_index(args->gpuid);
  return gpu < 0 ? EINVAL : drv_smi_open((uint32_t)gpu, &args->anon_fd);
}

// ---- the table ----

static int (*const handlers[])(void *) = {
    [_IOC_NR(AMDKFD_IOC_GET_VERSION)] = get_version,
    [_IOC_NR(AMDKFD_IOC_CREATE_QUEUE)] = create_queue,
    [_IOC_NR(AMDKFD_IOC_DESTROY_QUEUE)] = destroy_queue,
    [_IOC_NR(AMDKFD_IOC_SET_MEMORY_POLICY)] = set_memory_policy,
    [_IOC_NR(AMDKFD_IOC_GET_CLOCK_COUNTERS)] = get_clock_counters,
    [GET_APERTURES] = get_apertures,
    [_IOC_NR(AMDKFD_IOC_UPDATE_QUEUE)] = update_queue,
    [_IOC_NR(AMDKFD_IOC_CREATE_EVENT)] = create_event,
    [_IOC_NR(AMDKFD_IOC_DESTROY_EVENT)] = destroy_event,
    [_IOC_NR(AMDKFD_IOC_SET_EVENT)] = set_event,
    [_IOC_NR(AMDKFD_IOC_RESET_EVENT)] = reset_event,
    [_IOC_NR(AMDKFD_IOC_WAIT_EVENTS)] = wait_events,
    [DEBUG_FIRST ... DEBUG_LAST] = refuse_permission,
    [_IOC_NR(AMDKFD_IOC_SET_SCRATCH_BACKING_VA)] = set_scratch_backing_va,
    [_IOC_NR(AMDKFD_IOC_GET_TILE_CONFIG)] = get_tile_config,
    [_IOC_NR(AMDKFD_IOC_SET_TRAP_HANDLER)] = set_trap_handler,
    [_IOC_NR(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW)] = get_apertures_new,
    [_IOC_NR(AMDKFD_IOC_ACQUIRE_VM)] = acquire_vm,
    [_IOC_NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU)] = alloc_memory,
    [_IOC_NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU)] = free_memory,
    [_IOC_NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU)] = map_memory,
    [_IOC_NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU)] = unmap_memory,
    [_IOC_NR(AMDKFD_IOC_SET_CU_MASK)] = set_cu_mask,
    [_IOC_NR(AMDKFD_IOC_GET_QUEUE_WAVE_STATE)] = refuse,
    [_IOC_NR(AMDKFD_IOC_GET_DMABUF_INFO)] = get_dmabuf_info,
    [_IOC_NR(AMDKFD_IOC_IMPORT_DMABUF)] = import_dmabuf,
    [_IOC_NR(AMDKFD_IOC_ALLOC_QUEUE_GWS)] = alloc_queue_gws,
    [_IOC_NR(AMDKFD_IOC_SMI_EVENTS)] = smi_events,
    [_IOC_NR(AMDKFD_IOC_SVM)] = svm,
    [_IOC_NR(AMDKFD_IOC_SET_XNACK_MODE)] = set_xnack_mode,
    [_IOC_NR(AMDKFD_IOC_CRIU_OP)] = refuse_access,
    [_IOC_NR(AMDKFD_IOC_AVAILABLE_MEMORY)] = available_memory,
    [_IOC_NR(AMDKFD_IOC_EXPORT_DMABUF)] = export_dmabuf,
    [_IOC_NR(AMDKFD_IOC_RUNTIME_ENABLE)] = runtime_enable,
    [_IOC_NR(AMDKFD_IOC_DBG_TRAP)] = refuse,
    [IPC_IMPORT] = ipc_import,
    [IPC_EXPORT] = ipc_export,
};

int drv_kfd_ioctl(uint32_t number, void *args) {
  int is_known = number < sizeof handlers / sizeof handlers[0] && handlers[number];
  if (is_known && !args)
    return EFAULT;
  int error = is_known ? handlers[number](args) : EINVAL;
  drv_log(error || !is_known ? 1 : 2, "KFD ioctl %#x -> %d%s", number, error, is_known ? "" : ": not in the emulated driver");
  return error;
}

void drv_kfd_forget(void) {
  pthread_mutex_init(&lock, NULL);
  memset(queues, 0, sizeof queues);
  memset(doorbell_used, 0, sizeof doorbell_used);
  memset(doorbells, 0, sizeof doorbells);
  runtime_enabled = 0;
}
