// Translated kernels by the address of their descriptor.
//
// Entries are found without a lock. Code in memory can be replaced: a launch compares the descriptor, and after every load of code
// (which the runtime follows by an invalidation of the instruction cache) the code too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "execution.h"
#include "kernels.h"
#include "service.h"

enum { BUCKETS = 1024, LOCKS = 16, COMPARED_BYTES = 64 << 10 };

static _Atomic(struct entry *) buckets[BUCKETS];
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};
static _Atomic uint64_t code_version = 1;

void drv_kernels_invalidate(void) { atomic_fetch_add(&code_version, 1); }

void drv_kernels_forget(void) {
  for (int k = 0; k < LOCKS; k++) pthread_mutex_init(&locks[k], NULL);
  drv_hot_forget();
}

static uint32_t bucket_of(uint64_t object) { return (uint32_t)(object / RPL_DESCRIPTOR_BYTES * 0x9e3779b97f4a7c15ull >> 54) % BUCKETS; }

// ---- is the code still the same ----

static uint64_t hash_of(const uint8_t *at, uint64_t bytes) {
  uint64_t hash = bytes;
  for (uint64_t k = 0; k + 8 <= bytes; k += 8) {
    uint64_t word;
    memcpy(&word, at + k, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return hash;
}

// The part of the code that is compared: from the entry on, whose distance is in the descriptor (of every version).
static uint64_t code_hash(const struct drv_block_place *place, uint64_t object) {
  enum { ENTRY_OFFSET = 16 };
  int64_t distance;
  memcpy(&distance, (const void *)(object + ENTRY_OFFSET), sizeof distance);
  uint64_t entry = object + (uint64_t)distance, end = place->address + place->size;
  if (entry < place->address || entry >= end) return 0;
  return hash_of((const uint8_t *)entry, end - entry < COMPARED_BYTES ? end - entry : COMPARED_BYTES);
}

static int is_same_code(const struct entry *e) {
  struct drv_block_place place;
  if (!drv_memory_block(e->kernel.object, &place)) return 0;
  return place.address == e->place.address && place.size == e->place.size && code_hash(&place, e->kernel.object) == e->hash;
}

// ---- asking the service ----

static void set_properties(struct drv_kernel *kernel, const struct rpl_kernel_answer *is) {
  kernel->id = is->id;
  kernel->block_count = is->block_count;
  kernel->probe_count = is->probe_count;
  kernel->vgpr_rows = is->vgpr_rows;
  kernel->agpr_rows = is->agpr_rows;
  kernel->depends_on_order = is->depends_on_order;
  kernel->wave_size = is->wave_size;
  kernel->mode = is->mode;
  kernel->system_sgprs = is->system_sgprs;
  kernel->work_item_id_dims = is->work_item_id_dims;
  kernel->work_item_id_rows = is->work_item_id_rows;
  kernel->static_scratch_bytes = is->static_scratch_bytes;
  kernel->static_lds_bytes = is->static_lds_bytes;
  kernel->kernarg_bytes = is->kernarg_bytes;
  kernel->properties = is->properties;
  kernel->user_sgprs = is->user_sgprs;
  kernel->preload_offset = is->preload_offset;
  kernel->preload_dwords = is->preload_dwords;
  kernel->cooperative = is->cooperative;
  kernel->load_address = is->load_address;
}

// Loads the library that the service named. It stays loaded: wavefronts may be in it at any time.
rpl_kernel drv_kernel_load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *function = library ? dlsym(library, "kernel") : NULL;
  if (!function) drv_log(1, "%s", dlerror());
  return (rpl_kernel)function;
}

static void take_answer(struct entry *e, const char *answer, uint64_t bytes) {
  struct rpl_kernel_answer is;
  if (bytes < sizeof is) return;
  memcpy(&is, answer, sizeof is);
  const char *path = answer + sizeof is;
  uint64_t length = strnlen(path, bytes - sizeof is);
  set_properties(&e->kernel, &is);
  e->kernel.name = strdup(sizeof is + length < bytes ? path + length + 1 : "kernel");
  e->totals = calloc(is.block_count + 1, sizeof *e->totals);
  rpl_kernel code = drv_kernel_load(path);
  if (e->kernel.name && e->totals) atomic_store(&e->kernel.code, code);
  e->is_final = is.is_final;
}

static void translate(struct entry *e, uint32_t gpu) {
  struct rpl_kernel_query query = {.object = e->kernel.object, .image = e->place.address, .image_bytes = e->place.size,
                                   .image_offset = e->place.offset, .gpu = gpu};
  const void *elf = drv_elf_get(&e->place, e->kernel.object, &query.elf_bytes);
  struct iovec parts[] = {{&query, sizeof query}, {(void *)elf, query.elf_bytes}};
  void *answer;
  uint64_t bytes;
  uint32_t kind = drv_service_ask(RPL_KERNEL, parts, 2, &answer, &bytes);
  drv_elf_put();
  if (kind == RPL_KERNEL_IS) take_answer(e, answer, bytes);
  if (!atomic_load(&e->kernel.code)) {
    static const char *const reasons[] = {"no translation of a kernel: the service is gone",
                                          "no translation of a kernel: its native code cannot be loaded"};
    e->refusal = strdup(kind == RPL_REFUSED ? answer : reasons[kind != 0]);
  }
  free(answer);
}

static uint32_t gpu_index(uint32_t gpu_id) {
  const struct drv_settings *settings = drv_settings();
  for (uint32_t k = 0; k < settings->gpu_count; k++)
    if (settings->gpus[k].gpu_id == gpu_id) return k;
  return 0;
}

// ---- the table ----

static int is_current(const struct entry *e, uint32_t gpu_id, uint64_t object) {
  return e->kernel.object == object && e->gpu_id == gpu_id && !atomic_load_explicit(&e->is_stale, memory_order_relaxed) &&
         memcmp(e->descriptor, (const void *)object, sizeof e->descriptor) == 0;
}

static struct entry *find(uint32_t gpu_id, uint64_t object) {
  for (struct entry *e = atomic_load(&buckets[bucket_of(object)]); e; e = e->next)
    if (is_current(e, gpu_id, object)) return e;
  return NULL;
}

// Checks an entry after code was loaded somewhere. Returns whether it is still right.
static int check(struct entry *e) {
  uint64_t version = atomic_load(&code_version);
  if (!is_same_code(e)) {
    atomic_store(&e->is_stale, 1);
    return 0;
  }
  atomic_store(&e->version, version);
  return 1;
}

static struct entry *add(uint32_t gpu_id, uint64_t object) {
  struct entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->version = atomic_load(&code_version);
  e->gpu_id = gpu_id;
  e->kernel.object = object;
  memcpy(e->descriptor, (const void *)object, sizeof e->descriptor);
  if (drv_memory_block(object, &e->place)) {
    e->hash = code_hash(&e->place, object);
    translate(e, gpu_index(gpu_id));
  } else {
    e->refusal = strdup("a kernel is not in memory of the GPU");
    atomic_store(&e->is_stale, 1);
  }
  _Atomic(struct entry *) *bucket = &buckets[bucket_of(object)];
  e->next = atomic_load(bucket);
  while (!atomic_compare_exchange_weak(bucket, &e->next, e)) {}
  drv_hot_add(e);
  return e;
}

const struct drv_kernel *drv_kernel_of(uint32_t gpu_id, uint64_t object, char *error, uint64_t error_bytes) {
  struct entry *e = find(gpu_id, object);
  if (!e || atomic_load_explicit(&e->version, memory_order_acquire) != atomic_load(&code_version)) {
    pthread_mutex_t *lock = &locks[bucket_of(object) % LOCKS];
    pthread_mutex_lock(lock);
    e = find(gpu_id, object);
    if (e && !check(e)) e = NULL;
    if (!e) e = add(gpu_id, object);
    pthread_mutex_unlock(lock);
  }
  if (e && !e->refusal && atomic_load(&e->kernel.code)) return &e->kernel;
  snprintf(error, error_bytes, "%s", e && e->refusal ? e->refusal : "too little memory for a kernel");
  return NULL;
}

uint64_t drv_kernel_weight(const struct drv_kernel *kernel) {
  return atomic_load_explicit(&((const struct entry *)kernel)->weight, memory_order_relaxed);
}

void drv_kernel_weigh(const struct drv_kernel *kernel, uint64_t instructions_per_workgroup) {
  atomic_store_explicit(&((struct entry *)kernel)->weight, instructions_per_workgroup, memory_order_relaxed);
}
