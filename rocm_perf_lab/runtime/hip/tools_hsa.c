// The HSA functions that tools libraries may call or replace, on the runtime's own devices, memory, signals and queues.
#define _GNU_SOURCE
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <string.h>
#include <time.h>

#include "tools.h"

_Thread_local struct hip_tools_told hip_tools_told;

enum {
  HOST_AGENT = 1, FIRST_GPU = 0x100, HOST_KERNARG_POOL = 0x10, HOST_POOL = 0x11, FIRST_GPU_POOL = 0x200, VERSION_MAJOR = 1, VERSION_MINOR = 1,
  TICKS_PER_SECOND = 1000000000 / HIP_TICK_NS, PAUSE_NS = 50000, LOCATION_FUNCTION_BITS = 8
};

uint64_t hip_tools_agent(const struct hip_device *device) { return FIRST_GPU + (uint64_t)device->index; }

uint64_t hip_tools_pool(const struct hip_memory *block) {
  switch (block->kind) {
    case HIP_MEMORY_DEVICE: case HIP_MEMORY_VIRTUAL: case HIP_MEMORY_IPC: return FIRST_GPU_POOL + (uint64_t)block->device->index;
    case HIP_MEMORY_INTERNAL: return HOST_KERNARG_POOL;
    default: return HOST_POOL;
  }
}

static const struct hip_device *device_of(hsa_agent_t agent) { return hip_device_at((int)(agent.handle - FIRST_GPU)); }
static struct hip_signal *signal_of(hsa_signal_t signal) { return (struct hip_signal *)signal.handle; }
static const struct ihipModuleSymbol_t *function_of(hsa_executable_symbol_t symbol) { return (const struct ihipModuleSymbol_t *)symbol.handle; }

// ---- system and agents ----

static hsa_status_t system_get_info(hsa_system_info_t attribute, void *value) {
  if (attribute == HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY) *(uint64_t *)value = TICKS_PER_SECOND;
  else if (attribute == HSA_SYSTEM_INFO_VERSION_MAJOR) *(uint16_t *)value = VERSION_MAJOR;
  else if (attribute == HSA_SYSTEM_INFO_VERSION_MINOR) *(uint16_t *)value = VERSION_MINOR;
  else return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data), void *data) {
  hsa_status_t status = callback((hsa_agent_t){HOST_AGENT}, data);
  for (int i = 0; status == HSA_STATUS_SUCCESS && i < hip_device_count(); i++)
    status = callback((hsa_agent_t){hip_tools_agent(hip_device_at(i))}, data);
  return status;
}

static hsa_status_t gpu_get_info(const struct hip_device *device, int attribute, void *value) {
  const struct hip_topology *facts = hip_topology_of(device);
  switch (attribute) {
    case HSA_AGENT_INFO_DEVICE: *(hsa_device_type_t *)value = HSA_DEVICE_TYPE_GPU; break;
    case HSA_AGENT_INFO_NAME: strcpy(value, device->architecture); break;  // NOLINT: at most 16 of 64 bytes
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME: strncpy(value, device->properties.name, 63); break;
    case HSA_AMD_AGENT_INFO_UUID: snprintf(value, 24, "GPU-%016llx", (unsigned long long)facts->unique_id); break;
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID: *(uint32_t *)value = device->node; break;
    case HSA_AMD_AGENT_INFO_BDFID: *(uint32_t *)value = facts->location_id; break;
    case HSA_AMD_AGENT_INFO_CHIP_ID: *(uint32_t *)value = facts->device_id; break;
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT: *(uint32_t *)value = device->compute_units; break;
    case HSA_AGENT_INFO_WAVEFRONT_SIZE: *(uint32_t *)value = device->wave_size; break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value) {
  if (agent.handle != HOST_AGENT) return gpu_get_info(device_of(agent), (int)attribute, value);
  if (attribute == HSA_AGENT_INFO_DEVICE) *(hsa_device_type_t *)value = HSA_DEVICE_TYPE_CPU;
  else if (attribute == HSA_AGENT_INFO_NAME) strcpy(value, "host");  // NOLINT: of 64 bytes
  else return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t isa, void *data), void *data) {
  return agent.handle == HOST_AGENT ? HSA_STATUS_SUCCESS : callback((hsa_isa_t){agent.handle}, data);
}

static hsa_status_t isa_get_info(hsa_isa_t isa, hsa_isa_info_t attribute, void *value) {
  char name[sizeof "amdgcn-amd-amdhsa--" + sizeof device_of((hsa_agent_t){isa.handle})->isa];
  int length = snprintf(name, sizeof name, "amdgcn-amd-amdhsa--%s", device_of((hsa_agent_t){isa.handle})->isa);
  if (attribute == HSA_ISA_INFO_NAME_LENGTH) *(uint32_t *)value = (uint32_t)length + 1;
  else if (attribute == HSA_ISA_INFO_NAME) memcpy(value, name, (size_t)length + 1);
  else return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return HSA_STATUS_SUCCESS;
}

// ---- memory ----

static hsa_status_t iterate_pools(hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data), void *data) {
  if (agent.handle != HOST_AGENT) return callback((hsa_amd_memory_pool_t){FIRST_GPU_POOL + agent.handle - FIRST_GPU}, data);
  hsa_status_t status = callback((hsa_amd_memory_pool_t){HOST_KERNARG_POOL}, data);
  return status == HSA_STATUS_SUCCESS ? callback((hsa_amd_memory_pool_t){HOST_POOL}, data) : status;
}

static hsa_status_t pool_get_info(hsa_amd_memory_pool_t pool, hsa_amd_memory_pool_info_t attribute, void *value) {
  const uint32_t kernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT | HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
  if (attribute == HSA_AMD_MEMORY_POOL_INFO_SEGMENT) *(uint32_t *)value = HSA_AMD_SEGMENT_GLOBAL;
  else if (attribute == HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS)
    *(uint32_t *)value = pool.handle == HOST_KERNARG_POOL ? kernarg : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
  else return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return HSA_STATUS_SUCCESS;
}

// Memory of the tool itself is not announced.
static hsa_status_t pool_allocate(hsa_amd_memory_pool_t pool, size_t bytes, uint32_t flags, void **address) {
  (void)pool, (void)flags;
  if (hip_tools_told.address) {
    *address = (void *)hip_tools_told.address;
    return HSA_STATUS_SUCCESS;
  }
  struct hip_memory block;
  hip_tools_told.address = 1;
  hipError_t error = hip_memory_allocate(hip_device_at(0), HIP_MEMORY_HOST, bytes, 0, 0, &block);
  hip_tools_told.address = 0;
  *address = (void *)block.address;
  return error == hipSuccess ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static hsa_status_t pool_free(void *address) {
  if (hip_tools_told.address) return HSA_STATUS_SUCCESS;
  hip_tools_told.address = 1;
  hipError_t error = hip_memory_free((uint64_t)address);
  hip_tools_told.address = 0;
  return error == hipSuccess ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t allow_access(uint32_t count, const hsa_agent_t *agents, const uint32_t *flags, const void *address) {
  (void)count, (void)agents, (void)flags, (void)address;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t memory_lock(void *host, size_t bytes, hsa_agent_t *agents, int count, void **address) {
  (void)bytes, (void)agents, (void)count;
  *address = host;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t memory_unlock(void *host) {
  (void)host;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t pointer_info(const void *address, hsa_amd_pointer_info_t *info, void *(*allocate)(size_t), uint32_t *count, hsa_agent_t **agents) {
  (void)allocate, (void)count, (void)agents;
  info->type = hip_memory_find(address, NULL) ? HSA_EXT_POINTER_TYPE_HSA : HSA_EXT_POINTER_TYPE_UNKNOWN;
  return HSA_STATUS_SUCCESS;
}

// The copy engines run at the same time as the packets that a tool waits for.
static void wait_for_copies(void) {
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  for (const struct hip_queue *queue = hip_queues_first(); queue; queue = queue->next)
    while (queue->sdma_ring && __atomic_load_n(&queue->sdma_indexes[0], __ATOMIC_ACQUIRE) < __atomic_load_n(&queue->sdma_indexes[8], __ATOMIC_ACQUIRE))
      nanosleep(&pause, NULL);
}

static hsa_status_t async_copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t bytes, uint32_t count,
                               const hsa_signal_t *signals, hsa_signal_t done) {
  (void)to_agent, (void)from_agent, (void)count, (void)signals;
  wait_for_copies();
  memcpy(to, from, bytes);
  if (done.handle) hip_signal_store(signal_of(done), hip_signal_load(signal_of(done)) - 1);
  return HSA_STATUS_SUCCESS;
}

// ---- signals ----

static hsa_status_t signal_create(hsa_signal_value_t value, uint32_t count, const hsa_agent_t *agents, hsa_signal_t *signal) {
  (void)count, (void)agents;
  signal->handle = (uint64_t)hip_signal_create(value);
  return signal->handle ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static hsa_status_t signal_destroy(hsa_signal_t signal) {
  hip_signal_release(signal_of(signal));
  return HSA_STATUS_SUCCESS;
}

static void signal_store(hsa_signal_t signal, hsa_signal_value_t value) {
  if (signal.handle) hip_signal_store(signal_of(signal), value);
  else hip_ring_driver();         // the doorbell of a queue
}

static void signal_subtract(hsa_signal_t signal, hsa_signal_value_t value) { hip_signal_store(signal_of(signal), hip_signal_load(signal_of(signal)) - value); }

// Tools wait for values below another one.
static hsa_signal_value_t signal_wait(hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t value, uint64_t ticks, hsa_wait_state_t state) {
  (void)condition, (void)state;
  const struct timespec pause = {.tv_nsec = PAUSE_NS};
  for (uint64_t waited = 0; hip_signal_load(signal_of(signal)) >= value && waited < ticks; waited += PAUSE_NS / HIP_TICK_NS) nanosleep(&pause, NULL);
  return hip_signal_load(signal_of(signal));
}

// ---- code ----

static hsa_status_t reader_from_memory(const void *code, size_t bytes, hsa_code_object_reader_t *reader) {
  (void)bytes;
  reader->handle = (uint64_t)code;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t reader_destroy(hsa_code_object_reader_t reader) {
  (void)reader;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t load_agent(hsa_executable_t executable, hsa_agent_t agent, hsa_code_object_reader_t reader, const char *options, hsa_loaded_code_object_t *loaded) {
  (void)executable, (void)agent, (void)reader, (void)options, (void)loaded;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t executable_destroy(hsa_executable_t executable) {
  (void)executable;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t symbol_by_name(hsa_executable_t executable, const char *name, const hsa_agent_t *agent, hsa_executable_symbol_t *symbol) {
  (void)executable, (void)name, (void)agent;
  symbol->handle = (uint64_t)hip_tools_told.symbol;
  return symbol->handle ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
}

static hsa_status_t symbol_get_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t attribute, void *value) {
  static const char suffix[] = ".kd";
  const struct ihipModuleSymbol_t *function = function_of(symbol);
  size_t length = strlen(function->name);
  switch ((int)attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT: *(uint64_t *)value = function->descriptor; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH: *(uint32_t *)value = (uint32_t)(length + sizeof suffix - 1); break;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME:
      memcpy(value, function->name, length);
      memcpy((char *)value + length, suffix, sizeof suffix - 1);
      break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE: *(uint32_t *)value = function->kernarg_bytes; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE: *(uint32_t *)value = function->static_lds_bytes; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE: *(uint32_t *)value = function->private_bytes; break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

// ---- queues ----

static struct hip_queue *queue_of(const hsa_queue_t *queue) {
  struct hip_queue *found = hip_queues_first();
  while (found && (const void *)found->amd != (const void *)queue) found = found->next;
  return found ? found : hip_tools_told.queue;
}

static hsa_status_t queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, void (*callback)(hsa_status_t status, hsa_queue_t *source, void *data),
                                 void *data, uint32_t private_size, uint32_t group_size, hsa_queue_t **queue) {
  (void)agent, (void)size, (void)type, (void)callback, (void)data, (void)private_size, (void)group_size;
  if (!hip_tools_told.queue) return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
  *queue = (hsa_queue_t *)hip_tools_told.queue->amd;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t queue_destroy(hsa_queue_t *queue) {
  (void)queue;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t intercept_register(hsa_queue_t *queue, hip_tools_handler handler, void *data) {
  struct hip_queue *watched = queue_of(queue);
  if (!watched || watched->handler) return HSA_STATUS_ERROR_INVALID_QUEUE;
  watched->handler_data = data;
  watched->handler = handler;
  return HSA_STATUS_SUCCESS;
}

static uint64_t load_read_index(const hsa_queue_t *queue) { return hip_queue_read_index(queue_of(queue)); }
static uint64_t load_write_index(const hsa_queue_t *queue) { return queue_of(queue)->submitted; }

// Tools submit packets while one of their handlers runs, whose thread holds hip_streams_lock.
static uint64_t cas_write_index(const hsa_queue_t *queue, uint64_t expected, uint64_t value) {
  struct hip_queue *changed = queue_of(queue);
  if (changed->submitted != expected) return changed->submitted;
  hip_queue_advance(changed, value);
  return expected;
}

static hsa_status_t set_profiler(hsa_queue_t *queue, int enable) {
  (void)queue, (void)enable;
  return HSA_STATUS_SUCCESS;      // signals always have times
}

static hsa_status_t dispatch_time(hsa_agent_t agent, hsa_signal_t signal, hsa_amd_profiling_dispatch_time_t *time) {
  (void)agent;
  *time = (hsa_amd_profiling_dispatch_time_t){signal_of(signal)->start_ticks, signal_of(signal)->end_ticks};
  return HSA_STATUS_SUCCESS;
}

// ---- the table ----

void hip_tools_functions(void **core, void **amd) {
  enum {                          // slots of functions that only tools call
    SYSTEM_GET_INFO = 2, ITERATE_AGENTS = 5, AGENT_GET_INFO = 6, QUEUE_DESTROY = 9, LOAD_READ_INDEX = 11, LOAD_WRITE_INDEX = 14,
    CAS_WRITE_INDEX = 20, SIGNAL_CREATE = 37, SIGNAL_DESTROY = 38, SIGNAL_STORE = 42, SIGNAL_WAIT = 44, SIGNAL_SUBTRACT = 67,
    ITERATE_ISAS = 108, ISA_GET_INFO = 109
  };
  enum {
    SET_PROFILER = 2, DISPATCH_TIME = 4, POOL_GET_INFO = 11, ITERATE_POOLS = 12, ASYNC_COPY = 15, ALLOW_ACCESS = 19, POINTER_INFO = 28,
    INTERCEPT_CREATE = 37, INTERCEPT_REGISTER = 38
  };
  core[SYSTEM_GET_INFO] = system_get_info;
  core[ITERATE_AGENTS] = iterate_agents;
  core[AGENT_GET_INFO] = agent_get_info;
  core[HIP_TOOLS_QUEUE_CREATE] = queue_create;
  core[QUEUE_DESTROY] = queue_destroy;
  core[LOAD_READ_INDEX] = load_read_index;
  core[LOAD_WRITE_INDEX] = load_write_index;
  core[CAS_WRITE_INDEX] = cas_write_index;
  core[SIGNAL_CREATE] = signal_create;
  core[SIGNAL_DESTROY] = signal_destroy;
  core[SIGNAL_STORE] = signal_store;
  core[SIGNAL_WAIT] = signal_wait;
  core[SIGNAL_SUBTRACT] = signal_subtract;
  core[HIP_TOOLS_EXECUTABLE_DESTROY] = executable_destroy;
  core[HIP_TOOLS_SYMBOL_INFO] = symbol_get_info;
  core[ITERATE_ISAS] = iterate_isas;
  core[ISA_GET_INFO] = isa_get_info;
  core[HIP_TOOLS_READER_FROM_MEMORY] = reader_from_memory;
  core[HIP_TOOLS_READER_DESTROY] = reader_destroy;
  core[HIP_TOOLS_LOAD_AGENT] = load_agent;
  core[HIP_TOOLS_SYMBOL_BY_NAME] = symbol_by_name;
  amd[SET_PROFILER] = set_profiler;
  amd[DISPATCH_TIME] = dispatch_time;
  amd[POOL_GET_INFO] = pool_get_info;
  amd[ITERATE_POOLS] = iterate_pools;
  amd[HIP_TOOLS_POOL_ALLOCATE] = pool_allocate;
  amd[HIP_TOOLS_POOL_FREE] = pool_free;
  amd[ASYNC_COPY] = async_copy;
  amd[ALLOW_ACCESS] = allow_access;
  amd[HIP_TOOLS_LOCK] = memory_lock;
  amd[HIP_TOOLS_UNLOCK] = memory_unlock;
  amd[POINTER_INFO] = pointer_info;
  amd[INTERCEPT_CREATE] = queue_create;
  amd[INTERCEPT_REGISTER] = intercept_register;
}
