// Loads tools libraries, and tells them what the runtime does by calls of the functions in their table.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

struct version { uint32_t major, minor /* bytes */, step, reserved; };
static struct { struct version version; void *slots[HIP_TOOLS_CORE_SLOTS]; } core;
static struct { struct version version; void *slots[HIP_TOOLS_AMD_SLOTS]; } amd;
static struct { struct version version; void *core, *amd, *others[4]; } tables;
static atomic_int is_loaded;
#define CORE(slot, type) ((__typeof__(&(type)))core.slots[slot])
#define AMD(slot, type) ((__typeof__(&(type)))amd.slots[slot])

// ---- loading ----

static int start(void *library, const char *name) {
  bool (*on_load)(void *tables, uint64_t version, uint64_t failed, const char *const *names) = NULL;
  *(void **)&on_load = dlsym(library, "OnLoad");
  if (!on_load) {
    hip_say("%s is no HSA tools library: it has no function OnLoad", name);
    return 0;
  }
  return on_load(&tables, 1, 0, NULL);
}

void hip_tools_load(void) {
  const char *list = getenv("HSA_TOOLS_LIB");
  int is_preloaded = dlsym(RTLD_DEFAULT, "HSA_AMD_TOOL_PRIORITY") != NULL;
  if ((!list || !*list) && !is_preloaded) return;
  core.version = (struct version){2, sizeof core, 0, 0};
  amd.version = (struct version){2, sizeof amd, 0, 0};
  tables.version = (struct version){2, sizeof tables, 0, 0};
  tables.core = &core;
  tables.amd = &amd;
  hip_tools_functions(core.slots, amd.slots);
  if (is_preloaded && start(RTLD_DEFAULT, "LD_PRELOAD")) atomic_store(&is_loaded, 1);
  char *names = strdup(list ? list : ""), *rest = names;
  for (char *name = names ? strsep(&rest, " ") : NULL; name; name = strsep(&rest, " ")) {
    if (!*name) continue;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // NOLINT(clang-analyzer-optin.taint.GenericTaint): the user chose it
    if (!library) hip_say("the tools library cannot be loaded: %s", dlerror());
    else if (start(library, name)) atomic_store(&is_loaded, 1);
  }
  free(names);
}

int hip_tools_are_loaded(void) { return atomic_load_explicit(&is_loaded, memory_order_relaxed); }

void hip_tools_forget(void) { atomic_store(&is_loaded, 0); }

// ---- memory ----

// Grants access to all GPUs that have it, as the runtime's own mappings do.
static int gpus_of(const struct hip_memory *block, hsa_agent_t *agents) {
  int count = 0;
  for (int i = 0; i < hip_device_count(); i++) {
    const struct hip_device *device = hip_device_at(i);
    int is_local = block->kind == HIP_MEMORY_DEVICE || block->kind == HIP_MEMORY_IPC || block->kind == HIP_MEMORY_VIRTUAL;
    if (!is_local || device == block->device || device->peers >> block->device->index & 1) agents[count++].handle = hip_tools_agent(device);
  }
  return count;
}

void hip_tools_allocated(const struct hip_memory *block) {
  enum { ALLOW_ACCESS = 19 };
  if (!hip_tools_are_loaded() || hip_tools_told.address || block->is_symbol) return;
  hsa_agent_t agents[HIP_MAX_DEVICES];
  int count = gpus_of(block, agents);
  hsa_amd_memory_pool_t pool = {hip_tools_pool(block)};
  void *address = (void *)block->address;
  hip_tools_told.address = block->address;
  if (block->kind == HIP_MEMORY_REGISTERED) {
    AMD(HIP_TOOLS_LOCK, hsa_amd_memory_lock)(address, block->size, agents, count, &address);
  } else {
    AMD(HIP_TOOLS_POOL_ALLOCATE, hsa_amd_memory_pool_allocate)(pool, block->mapped_size, 0, &address);
    AMD(ALLOW_ACCESS, hsa_amd_agents_allow_access)((uint32_t)count, agents, NULL, address);
  }
  hip_tools_told.address = 0;
}

void hip_tools_freeing(const struct hip_memory *block) {
  if (!hip_tools_are_loaded() || hip_tools_told.address) return;
  hip_tools_told.address = block->address;
  if (block->kind == HIP_MEMORY_REGISTERED) AMD(HIP_TOOLS_UNLOCK, hsa_amd_memory_unlock)((void *)block->address);
  else AMD(HIP_TOOLS_POOL_FREE, hsa_amd_memory_pool_free)((void *)block->address);
  hip_tools_told.address = 0;
}

void hip_tools_is_code(uint64_t address) { hip_tools_freeing(&(struct hip_memory){.address = address, .kind = HIP_MEMORY_INTERNAL}); }

// ---- code ----

void hip_tools_loaded(struct ihipModule_t *module, const void *elf, uint64_t bytes) {
  if (!hip_tools_are_loaded()) return;
  hsa_code_object_reader_t reader = {(uint64_t)elf};
  hsa_executable_t executable = {(uint64_t)module};
  hsa_agent_t agent = {hip_tools_agent(module->device)};
  CORE(HIP_TOOLS_READER_FROM_MEMORY, hsa_code_object_reader_create_from_memory)(elf, bytes, &reader);
  CORE(HIP_TOOLS_LOAD_AGENT, hsa_executable_load_agent_code_object)(executable, agent, reader, NULL, NULL);
  CORE(HIP_TOOLS_READER_DESTROY, hsa_code_object_reader_destroy)(reader);
  for (uint32_t k = 0; k < module->function_count; k++) {
    hsa_executable_symbol_t symbol;
    uint64_t descriptor;
    hip_tools_told.symbol = &module->functions[k];
    CORE(HIP_TOOLS_SYMBOL_BY_NAME, hsa_executable_get_symbol_by_name)(executable, module->functions[k].name, &agent, &symbol);
    CORE(HIP_TOOLS_SYMBOL_INFO, hsa_executable_symbol_get_info)(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &descriptor);
  }
  hip_tools_told.symbol = NULL;
}

void hip_tools_unloading(struct ihipModule_t *module) {
  if (hip_tools_are_loaded()) CORE(HIP_TOOLS_EXECUTABLE_DESTROY, hsa_executable_destroy)((hsa_executable_t){(uint64_t)module});
}

// ---- queues ----

void hip_tools_queue(struct hip_queue *queue) {
  if (!hip_tools_are_loaded()) return;
  hsa_queue_t *created = NULL;
  hsa_agent_t agent = {hip_tools_agent(queue->device)};
  hip_tools_told.queue = queue;
  CORE(HIP_TOOLS_QUEUE_CREATE, hsa_queue_create)(agent, ((hsa_queue_t *)queue->amd)->size, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &created);
  hip_tools_told.queue = NULL;
}

static _Thread_local struct hip_queue *submitting;

static void write_packets(const void *packets, uint64_t count) {
  for (const uint8_t *packet = packets; count > 0; count--, packet += HIP_AQL_PACKET_BYTES) {
    uint32_t first;
    memcpy(&first, packet, sizeof first);
    memcpy((uint8_t *)hip_queue_packet(submitting) + sizeof first, packet + sizeof first, HIP_AQL_PACKET_BYTES - sizeof first);
    hip_queue_release(submitting, first);
  }
}

int hip_tools_packet(struct hip_queue *queue, const void *slot, uint32_t first_word) {
  if (!queue->handler || !hip_tools_are_loaded()) return 0;
  uint8_t packet[HIP_AQL_PACKET_BYTES];
  memcpy(packet, slot, sizeof packet);
  memcpy(packet, &first_word, sizeof first_word);
  submitting = queue;
  queue->handler(packet, 1, queue->submitted, queue->handler_data, write_packets);
  return 1;
}
