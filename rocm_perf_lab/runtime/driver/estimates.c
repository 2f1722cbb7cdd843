// Estimates by kernel and geometry. The service estimates the first dispatch of a geometry, and another one if the work of a dispatch
// differs much from that of all estimates, since it depends on data (a breadth-first search does more in every level).
#include "estimates.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  ESTIMATES = 8,        // of one family
  FAMILIES = 64,        // of one kernel that are estimated; further ones take over the estimates of the nearest
  FIRST_PLACES = 256,
};
// Difference of the logarithms of work from the nearest estimate, beyond which the next dispatch is estimated.
static const double FAR = 0.3;
// Of a compute unit, on average over kernels.
static const double RESIDENT_WAVES = 16, ISSUED_PER_CLOCK = 1, CLOCKS_PER_INSTRUCTION = 12;

// All of it is compared, so that padding must be zero.
struct key { const struct drv_kernel *kernel; uint32_t grid[3], block[3], remainder[3], lds_bytes; };

struct drv_family {
  struct key key;
  uint64_t hash;
  double groups;
  uint32_t count, wants_another, is_final;
  struct drv_estimate estimates[ESTIMATES];
};

static struct {
  pthread_mutex_t lock;
  struct drv_family **places;  // open addressing; a power of two
  uint64_t capacity, count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_of(const struct key *key) {
  const unsigned char *bytes = (const unsigned char *)key;
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t k = 0; k < sizeof *key; k++) hash = (hash ^ bytes[k]) * 0x100000001b3u;
  return hash ^ hash >> 29;
}

static double groups_of(const struct rpl_launch *launch) {
  return (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

static struct key key_of(const struct drv_kernel *kernel, const struct rpl_launch *launch) {
  struct key key;
  memset(&key, 0, sizeof key);
  key.kernel = kernel;
  memcpy(key.block, launch->block, sizeof key.block);
  key.lds_bytes = launch->lds_bytes;
  memcpy(key.grid, launch->grid, sizeof key.grid);
  memcpy(key.remainder, launch->remainder, sizeof key.remainder);
  return key;
}

static struct drv_family **place_of(const struct key *key, uint64_t hash) {
  uint64_t k = hash & (table.capacity - 1);
  while (table.places[k] && (table.places[k]->hash != hash || memcmp(&table.places[k]->key, key, sizeof *key) != 0))
    k = (k + 1) & (table.capacity - 1);
  return &table.places[k];
}

// Returns 1 if memory is short.
static int grow(void) {
  if (table.capacity && 2 * table.count < table.capacity) return 0;
  uint64_t capacity = table.capacity, larger = capacity ? 2 * capacity : FIRST_PLACES;
  struct drv_family **places = table.places, **grown = calloc(larger, sizeof *grown);
  if (!grown) return 1;
  table.places = grown;
  table.capacity = larger;
  for (uint64_t k = 0; k < capacity; k++)
    if (places[k]) *place_of(&places[k]->key, places[k]->hash) = places[k];
  free(places);
  return 0;
}

static double distance(double a, double b) { return fabs(log(a > 0 && b > 0 ? a / b : 1)); }

// Takes over the estimates of the nearest family of the same kernel if that has been estimated often enough.
static void inherit(struct drv_family *family) {
  const struct drv_family *nearest = NULL;
  uint32_t estimated = 0;
  double least = 0;
  for (uint64_t k = 0; k < table.capacity; k++) {
    const struct drv_family *other = table.places[k];
    if (!other || other->key.kernel != family->key.kernel || !other->count) continue;
    estimated += !other->is_final;
    double away = distance(other->groups, family->groups) + (memcmp(other->key.block, family->key.block, sizeof other->key.block) != 0);
    if (nearest && away >= least) continue;
    nearest = other;
    least = away;
  }
  if (estimated < FAMILIES || !nearest) return;
  memcpy(family->estimates, nearest->estimates, sizeof family->estimates);
  family->count = nearest->count;
  family->is_final = 1;
}

static struct drv_family *found_or_created(const struct key *key, double groups) {
  if (grow()) return NULL;
  uint64_t hash = hash_of(key);
  struct drv_family **place = place_of(key, hash);
  if (*place) return *place;
  struct drv_family *family = calloc(1, sizeof *family);
  if (!family) return NULL;
  family->key = *key;
  family->hash = hash;
  family->groups = groups;
  inherit(family);
  *place = family;
  table.count++;
  return family;
}

struct drv_family *drv_family_of(const struct drv_kernel *kernel, const struct rpl_launch *launch, int *wanted) {
  struct key key = key_of(kernel, launch);
  pthread_mutex_lock(&table.lock);
  struct drv_family *family = found_or_created(&key, groups_of(launch));
  *wanted = family && !family->is_final && (!family->count || family->wants_another);
  pthread_mutex_unlock(&table.lock);
  return family;
}

void drv_family_add(struct drv_family *family, const struct drv_estimate *estimate) {
  pthread_mutex_lock(&table.lock);
  family->wants_another = 0;
  if (family->count < ESTIMATES) family->estimates[family->count++] = *estimate;
  pthread_mutex_unlock(&table.lock);
}

void drv_family_give_up(struct drv_family *family) {
  pthread_mutex_lock(&table.lock);
  family->is_final = 1;
  pthread_mutex_unlock(&table.lock);
}

static double per_unit(double work, const struct drv_amount *amount) { return work / (amount->units > 0 ? amount->units : 1); }

// Work per compute unit relative to that of an estimate: instructions or requested bytes, whichever changed more. The next dispatch
// is estimated if that was much.
static double relative_work(const struct drv_amount *amount, const struct drv_amount *of) {
  double instructions = of->instructions > 0 ? per_unit(amount->instructions, amount) / per_unit(of->instructions, of) : 1;
  double bytes = of->bytes > 0 ? per_unit(amount->bytes, amount) / per_unit(of->bytes, of) : instructions;
  return fabs(log(fmax(bytes, 1e-9))) > fabs(log(fmax(instructions, 1e-9))) ? bytes : instructions;
}

uint64_t drv_family_scaled(struct drv_family *family, const struct drv_amount *amount, uint32_t *record) {
  *record = 0;
  pthread_mutex_lock(&table.lock);
  const struct drv_estimate *nearest = NULL;
  double least = 0;
  for (uint32_t k = 0; k < family->count; k++) {
    const struct drv_estimate *one = &family->estimates[k];
    double away = fmax(distance(amount->instructions, one->amount.instructions), distance(amount->bytes, one->amount.bytes));
    if (nearest && away >= least) continue;
    nearest = one;
    least = away;
  }
  uint64_t duration = 0;
  if (nearest) {
    *record = nearest->record;
    double variable = (double)(nearest->duration_ns - nearest->fixed_ns);
    duration = nearest->fixed_ns + (uint64_t)llround(variable * relative_work(amount, &nearest->amount));
    family->wants_another = least > FAR && family->count < ESTIMATES && !family->is_final;
  }
  pthread_mutex_unlock(&table.lock);
  return duration;
}

// The longest of: issuing the instructions of a compute unit, moving the bytes, and the wavefronts of a compute unit in rounds of
// those that are resident.
uint64_t drv_rough_duration(const struct drv_gpu *gpu, const struct rpl_launch *launch, const struct drv_amount *amount) {
  double groups = groups_of(launch), clocks_per_ns = gpu->clock_mhz / 1000.0;
  double items = (double)launch->block[0] * launch->block[1] * launch->block[2];
  double waves = ceil(items / launch->wave_size) * groups, per_wave = amount->instructions / fmax(waves, 1);
  double rounds = ceil(waves / amount->units / RESIDENT_WAVES);
  double issue = amount->instructions / amount->units / ISSUED_PER_CLOCK / clocks_per_ns;
  double latency = rounds * per_wave * CLOCKS_PER_INSTRUCTION / clocks_per_ns;
  double memory = gpu->memory_gb_per_s ? amount->bytes / gpu->memory_gb_per_s : 0;
  return gpu->launch_ns + (uint64_t)llround(fmax(fmax(issue, latency), memory));
}

void drv_families_forget(void) { pthread_mutex_init(&table.lock, NULL); }
