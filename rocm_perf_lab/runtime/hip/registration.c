// Registration: constructors that clang adds to a program announce its fat binaries, kernels and variables. Code is loaded into a
// device when the device first uses it.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "modules.h"

enum { WRAPPER_MAGIC = 0x48495046 /* "HIPF" */, FIRST_SLOTS = 256 };
struct wrapper { uint32_t magic, version; const void *code; const void *unused; };

struct fat_binary {
  const void *code;
  struct ihipModule_t *modules[HIP_MAX_DEVICES];
  hipError_t errors[HIP_MAX_DEVICES];     // of a load that failed: it is not repeated
  unsigned generation;                    // of the runtime that the modules belong to
  struct entry *entries;
  struct fat_binary *next;
};
enum entry_kind { ENTRY_FUNCTION = 1, ENTRY_VARIABLE, ENTRY_MANAGED };
struct entry {
  enum entry_kind kind;
  const void *host;                       // kernel stub, or host variable
  char *name;
  uint64_t bytes;
  void *managed;                          // memory of a managed variable
  struct fat_binary *binary;
  struct entry *next;                     // of the same binary
  struct ihipModuleSymbol_t *functions[HIP_MAX_DEVICES];
};

// Guards all of the following. It is held while code is loaded, so that a device loads it once.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fat_binary *binaries;
static struct entry **slots;              // hash table by host address, open addressing
static uint64_t slot_count, used_slots;   // used: includes removed ones
static struct entry removed;

// ---- hash table ----

static uint64_t first_slot(const void *host) { return ((uint64_t)host >> 3) * 0x9E3779B97F4A7C15ull >> 20 & (slot_count - 1); }

static struct entry *find(const void *host) {
  if (!slot_count || !host) return NULL;
  for (uint64_t at = first_slot(host); slots[at]; at = (at + 1) & (slot_count - 1))
    if (slots[at] != &removed && slots[at]->host == host) return slots[at];
  return NULL;
}

static void place(struct entry *entry) {
  uint64_t at = first_slot(entry->host);
  while (slots[at]) at = (at + 1) & (slot_count - 1);
  slots[at] = entry;
  used_slots++;
}

static int grow(void) {
  struct entry **old = slots;
  uint64_t old_count = slot_count, count = slot_count ? slot_count * 2 : FIRST_SLOTS;
  struct entry **bigger = calloc(count, sizeof *bigger);
  if (!bigger) return 0;
  slots = bigger;
  slot_count = count;
  used_slots = 0;
  for (uint64_t k = 0; k < old_count; k++)
    if (old[k] && old[k] != &removed) place(old[k]);
  free(old);
  return 1;
}

static void take_out(const struct entry *entry) {
  for (uint64_t at = first_slot(entry->host); slots[at]; at = (at + 1) & (slot_count - 1))
    if (slots[at] == entry) slots[at] = &removed;
}

static struct entry *add(struct fat_binary *binary, enum entry_kind kind, const void *host, const char *name) {
  struct entry *entry = calloc(1, sizeof *entry);
  if (!entry || !(entry->name = strdup(name)) || (2 * (used_slots + 1) > slot_count && !grow())) {
    if (entry) free(entry->name);
    free(entry);
    hip_say("too little memory to register %s", name);
    return NULL;
  }
  entry->kind = kind;
  entry->host = host;
  entry->binary = binary;
  entry->next = binary->entries;
  binary->entries = entry;
  place(entry);
  return entry;
}

// ---- loading ----

static void forget_modules(struct fat_binary *binary) {
  memset(binary->modules, 0, sizeof binary->modules);
  memset(binary->errors, 0, sizeof binary->errors);
  for (struct entry *entry = binary->entries; entry; entry = entry->next) memset(entry->functions, 0, sizeof entry->functions);
}

// Managed variables: device code has a pointer of the variable's name.
static void set_managed(const struct fat_binary *binary, const struct ihipModule_t *module) {
  for (const struct entry *entry = binary->entries; entry; entry = entry->next) {
    if (entry->kind != ENTRY_MANAGED) continue;
    const struct hip_variable *pointer = hip_image_variable(&module->image, entry->name);
    if (pointer && pointer->size >= sizeof entry->managed) memcpy((void *)pointer->address, &entry->managed, sizeof entry->managed);
  }
}

static hipError_t module_on(struct fat_binary *binary, struct hip_device *device, struct ihipModule_t **module) {
  if (binary->generation != hip_generation) {
    forget_modules(binary);
    binary->generation = hip_generation;
  }
  int index = device->index;
  if (!binary->modules[index] && binary->errors[index] == hipSuccess) {
    binary->errors[index] = hip_module_load(device, binary->code, 0, &binary->modules[index]);
    if (binary->errors[index] == hipSuccess) set_managed(binary, binary->modules[index]);
  }
  *module = binary->modules[index];
  return binary->errors[index];
}

static hipError_t function_of(struct entry *entry, struct hip_device *device, struct ihipModuleSymbol_t **function) {
  struct ihipModule_t *module;
  HIP_TRY(module_on(entry->binary, device, &module));
  struct ihipModuleSymbol_t **known = &entry->functions[device->index];
  if (!*known) *known = hip_module_function(module, entry->name);
  *function = *known;
  return *function ? hipSuccess : hipErrorInvalidDeviceFunction;
}

hipError_t hip_registered_function(const void *host_function, struct hip_device *device, struct ihipModuleSymbol_t **function) {
  pthread_mutex_lock(&lock);
  struct entry *entry = find(host_function);
  hipError_t error = entry && entry->kind == ENTRY_FUNCTION ? function_of(entry, device, function) : hipErrorInvalidDeviceFunction;
  pthread_mutex_unlock(&lock);
  return error;
}

const void *hip_host_function_of(const struct ihipModuleSymbol_t *function) {
  const void *host = function;
  int device = function->device->index;
  pthread_mutex_lock(&lock);
  for (const struct fat_binary *binary = binaries; binary; binary = binary->next)
    for (const struct entry *entry = binary->entries; entry; entry = entry->next)
      if (entry->kind == ENTRY_FUNCTION && entry->functions[device] == function) host = entry->host;
  pthread_mutex_unlock(&lock);
  return host;
}

const char *hip_registered_name(const void *host_function) {
  pthread_mutex_lock(&lock);
  const struct entry *entry = find(host_function);
  pthread_mutex_unlock(&lock);
  return entry ? entry->name : NULL;
}

static hipError_t variable_of(struct entry *entry, struct hip_device *device, uint64_t *address, uint64_t *bytes) {
  if (entry->kind == ENTRY_MANAGED) {
    *address = (uint64_t)entry->managed;
    *bytes = entry->bytes;
    return hipSuccess;
  }
  struct ihipModule_t *module;
  HIP_TRY(module_on(entry->binary, device, &module));
  const struct hip_variable *variable = hip_image_variable(&module->image, entry->name);
  if (!variable) return hipErrorInvalidSymbol;
  *address = variable->address;
  *bytes = entry->bytes;
  return hipSuccess;
}

// The address of a managed variable in host code is that of its memory.
static struct entry *managed_at(const void *memory) {
  for (struct fat_binary *binary = binaries; binary && memory; binary = binary->next)
    for (struct entry *entry = binary->entries; entry; entry = entry->next)
      if (entry->kind == ENTRY_MANAGED && entry->managed == memory) return entry;
  return NULL;
}

hipError_t hip_registered_variable(const void *host_variable, struct hip_device *device, uint64_t *address, uint64_t *bytes) {
  pthread_mutex_lock(&lock);
  struct entry *entry = find(host_variable);
  if (!entry) entry = managed_at(host_variable);
  hipError_t error = entry && entry->kind != ENTRY_FUNCTION ? variable_of(entry, device, address, bytes) : hipErrorInvalidSymbol;
  pthread_mutex_unlock(&lock);
  return error;
}

void hip_modules_forget(void) {
  pthread_mutex_init(&lock, NULL);
  hip_modules_forget_loaded();
  hip_services_forget();
}

// ---- called by constructors and destructors of the application ----

HIP_API void **__hipRegisterFatBinary(const void *data) {
  const struct wrapper *wrapper = data;
  if (!wrapper || wrapper->magic != WRAPPER_MAGIC || wrapper->version != 1) {
    hip_say("a fat binary with an unknown header was ignored");
    return NULL;
  }
  struct fat_binary *binary = calloc(1, sizeof *binary);
  if (!binary) return NULL;
  binary->code = wrapper->code;
  pthread_mutex_lock(&lock);
  binary->next = binaries;
  binaries = binary;
  pthread_mutex_unlock(&lock);
  return (void **)binary;
}

HIP_API void __hipRegisterFunction(void **handle, const void *host_function, char *unused, const char *name, unsigned thread_limit,
                                   void *thread, void *block, void *block_size, void *grid_size, int *wave_size) {
  (void)unused, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)wave_size;
  if (!handle) return;
  pthread_mutex_lock(&lock);
  add((struct fat_binary *)handle, ENTRY_FUNCTION, host_function, name);
  pthread_mutex_unlock(&lock);
}

HIP_API void __hipRegisterVar(void **handle, void *variable, char *unused, char *name, int is_external, size_t bytes, int is_constant,
                              int is_global) {
  (void)unused, (void)is_external, (void)is_constant, (void)is_global;
  if (!handle) return;
  pthread_mutex_lock(&lock);
  struct entry *entry = add((struct fat_binary *)handle, ENTRY_VARIABLE, variable, name);
  if (entry) entry->bytes = bytes;
  pthread_mutex_unlock(&lock);
}

// Memory of a managed variable with its initial value. Without a device it is the host's own.
static void *managed_memory(const void *initial, size_t bytes, unsigned alignment) {
  struct hip_memory memory;
  void *made = NULL;
  if (hip_initialize() == hipSuccess &&
      hip_memory_allocate(hip_device_at(0), HIP_MEMORY_MANAGED, bytes, alignment, hipMemAttachGlobal, &memory) == hipSuccess)
    made = (void *)memory.address;
  if (!made) made = calloc(1, bytes);
  if (made && initial) memcpy(made, initial, bytes);
  return made;
}

HIP_API void __hipRegisterManagedVar(void *handle, void **pointer, void *initial, const char *name, size_t bytes, unsigned alignment) {
  if (!handle) return;
  void *memory = managed_memory(initial, bytes, alignment);
  *pointer = memory;
  pthread_mutex_lock(&lock);
  struct entry *entry = add(handle, ENTRY_MANAGED, pointer, name);
  if (entry) {
    entry->bytes = bytes;
    entry->managed = memory;
  }
  pthread_mutex_unlock(&lock);
}

HIP_API void __hipRegisterTexture(void **handle, void *variable, char *unused, char *name, int type, int is_normalised, int is_external) {
  (void)handle, (void)variable, (void)unused, (void)name, (void)type, (void)is_normalised, (void)is_external;
}

HIP_API void __hipRegisterSurface(void **handle, void *variable, char *unused, char *name, int type, int is_external) {
  (void)handle, (void)variable, (void)unused, (void)name, (void)type, (void)is_external;
}

static void free_entries(struct fat_binary *binary) {
  while (binary->entries) {
    struct entry *entry = binary->entries;
    binary->entries = entry->next;
    take_out(entry);
    free(entry->name);
    free(entry);
  }
}

// At the end of the process or at dlclose().
HIP_API void __hipUnregisterFatBinary(void **handle) {
  struct fat_binary *binary = (struct fat_binary *)handle;
  if (!binary) return;
  pthread_mutex_lock(&lock);
  struct fat_binary **at = &binaries;
  while (*at && *at != binary) at = &(*at)->next;
  if (*at) *at = binary->next;
  free_entries(binary);
  pthread_mutex_unlock(&lock);
  for (int k = 0; k < HIP_MAX_DEVICES; k++) {
    if (!binary->modules[k] || binary->generation != hip_generation) continue;
    hip_device_synchronize(binary->modules[k]->device);
    hip_module_unload(binary->modules[k]);
  }
  free(binary);
}
