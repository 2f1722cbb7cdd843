// Two arrays: live allocations sorted by address, and the last freed ones in the order of their release.
#include "allocations.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "areas.h"
#include "host_races.h"

enum { MOST_FREED = 4096, FIRST_CAPACITY = 256 };
static const uint64_t MOST_QUARANTINED = 512ull << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct drv_allocation *live;
static uint64_t live_count, capacity;
static _Atomic uint64_t shared_count;
static struct drv_allocation freed[MOST_FREED];   // a ring: [freed_first, freed_end) are remembered
static uint64_t freed_first, freed_end, held_first /* those from here on still have their memory */, held_bytes;

static int is_shared(const struct drv_allocation *a) { return a->kind == RPL_HOST_MEMORY || a->kind == RPL_MANAGED_MEMORY; }

// Number of live allocations that begin at or before `address`.
static uint64_t behind(uint64_t address) {
  uint64_t first = 0, last = live_count;
  while (first < last) {
    uint64_t middle = (first + last) / 2;
    if (live[middle].address > address) last = middle;
    else first = middle + 1;
  }
  return first;
}

static int contains(const struct drv_allocation *a, uint64_t address) {
  return address - a->address < (a->reserved > a->bytes ? a->reserved : a->bytes ? a->bytes : 1);
}

int drv_allocation_at(uint64_t address, struct drv_allocation *found) {
  int is_found = 0;
  pthread_mutex_lock(&lock);
  uint64_t k = behind(address);
  if (k && contains(&live[k - 1], address)) {
    *found = live[k - 1];
    is_found = 1;
  }
  for (uint64_t n = freed_end; !is_found && n > freed_first; n--) {
    if (!contains(&freed[(n - 1) % MOST_FREED], address)) continue;
    *found = freed[(n - 1) % MOST_FREED];
    is_found = 1;
  }
  pthread_mutex_unlock(&lock);
  return is_found;
}

// Freed memory at the same addresses is given out again: it is no longer stale.
static void forget_freed(const struct drv_allocation *a) {
  for (uint64_t n = freed_first; n < freed_end; n++) {
    struct drv_allocation *old = &freed[n % MOST_FREED];
    if (n < held_first && old->address < a->address + a->reserved && a->address < old->address + old->reserved) old->reserved = old->bytes = 0;
  }
}

void drv_allocation_add(const struct drv_allocation *a) {
  pthread_mutex_lock(&lock);
  if (live_count == capacity) {
    uint64_t wanted = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct drv_allocation *larger = realloc(live, wanted * sizeof *live);
    if (larger) live = larger, capacity = wanted;
  }
  if (live_count < capacity) {
    uint64_t k = behind(a->address);
    if (k && live[k - 1].address == a->address) {
      live[k - 1] = *a;
    } else {
      memmove(live + k + 1, live + k, (live_count++ - k) * sizeof *live);
      live[k] = *a;
    }
  }
  forget_freed(a);
  pthread_mutex_unlock(&lock);
  shared_count += (uint64_t)is_shared(a);
  drv_area_allocated(&(struct drv_allocated){.address = a->address, .bytes = a->bytes, .reserved = a->reserved, .site = a->site,
                                             .is_initialised = a->kind != RPL_DEVICE_MEMORY && a->kind != RPL_STREAM_MEMORY});
}

uint64_t drv_allocations_shared(void) { return shared_count; }

static int is_held(const struct drv_allocation *a) { return a->kind <= RPL_MANAGED_MEMORY; }

int drv_allocation_free(uint64_t address, uint64_t site) {
  pthread_mutex_lock(&lock);
  uint64_t k = behind(address);
  int is_live = k && live[k - 1].address == address;
  struct drv_allocation a = {0};
  if (is_live) {
    a = live[k - 1];
    memmove(live + k - 1, live + k, (live_count - k) * sizeof *live);
    live_count--;
    a.is_freed = 1;
    a.freed_site = site;
    // The caller empties the quarantine before it is full, so that only entries without memory are overwritten.
    if (freed_end - freed_first == MOST_FREED) freed_first++;
    if (held_first < freed_first) held_first = freed_first;
    freed[freed_end++ % MOST_FREED] = a;
    if (is_held(&a)) held_bytes += a.reserved;
  }
  pthread_mutex_unlock(&lock);
  if (is_live) drv_area_freed(address, site);
  if (is_live && is_shared(&a)) {
    shared_count--;
    drv_host_races_open(a.address, a.reserved);
  }
  return is_live;
}

void drv_allocations_visit(void (*visit)(const struct drv_allocation *allocation)) {
  pthread_mutex_lock(&lock);
  for (uint64_t k = 0; k < live_count; k++) visit(&live[k]);
  pthread_mutex_unlock(&lock);
}

void drv_allocations_clear(void) {
  pthread_mutex_lock(&lock);
  live_count = freed_first = freed_end = held_first = held_bytes = shared_count = 0;
  pthread_mutex_unlock(&lock);
}

uint64_t drv_quarantine_next(int all, struct drv_allocation *found) {
  uint64_t address = 0;
  pthread_mutex_lock(&lock);
  while (!address && held_first < freed_end && (all || held_bytes > MOST_QUARANTINED || freed_end - held_first > MOST_FREED / 2)) {
    struct drv_allocation *a = &freed[held_first++ % MOST_FREED];
    if (!is_held(a)) continue;
    held_bytes -= a->reserved;
    *found = *a;
    address = a->address;
  }
  pthread_mutex_unlock(&lock);
  return address;
}

uint64_t drv_quarantine_bytes(void) {
  pthread_mutex_lock(&lock);
  uint64_t bytes = held_bytes;
  pthread_mutex_unlock(&lock);
  return bytes;
}
