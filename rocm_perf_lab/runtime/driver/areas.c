// A sorted array of the live allocations, and those that were freed until their addresses are used again. Descriptions of areas are never
// freed: kernels that run refer to them.
#define _GNU_SOURCE
#include "areas.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../emulator/runtime/checks.h"
#include "driver.h"
#include "findings.h"

enum { FRONT_BYTES = 16 /* in front of an allocation, that a wrong index reaches */, DWORD = 4, ALL_BYTES = 15, FIRST_CAPACITY = 64, MOST_FREED = 4096 };

static struct {
  pthread_mutex_t lock;
  struct drv_area **sorted;    // by begin; their reserved parts do not overlap
  uint64_t count, capacity, freed;
  _Atomic uint64_t version;
} areas = {.lock = PTHREAD_MUTEX_INITIALIZER, .version = 1};

uint64_t drv_areas_version(void) { return atomic_load_explicit(&areas.version, memory_order_acquire); }

// Index of the first area that ends, with what is reserved, behind `address`.
static uint64_t behind(uint64_t address) {
  uint64_t low = 0, high = areas.count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (areas.sorted[middle]->reserved_end > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

static uint64_t shadow_bytes(const struct drv_area *a) { return (a->end - 1) / DWORD - a->begin / DWORD + 2; }

static void drop_shadow(struct drv_area *a) {
  // The pages are given back; the addresses stay, since kernels that run may still look at them.
  if (a->initialised) madvise(a->initialised, shadow_bytes(a), MADV_DONTNEED);
}

static void remove_at(uint64_t index) {
  areas.freed -= areas.sorted[index]->is_freed != 0;
  memmove(areas.sorted + index, areas.sorted + index + 1, (--areas.count - index) * sizeof *areas.sorted);
}

static int insert_at(uint64_t index, struct drv_area *area) {
  if (areas.count == areas.capacity) {
    uint64_t larger = areas.capacity ? 2 * areas.capacity : FIRST_CAPACITY;
    struct drv_area **grown = realloc(areas.sorted, larger * sizeof *grown);
    if (!grown) return 0;
    areas.sorted = grown;
    areas.capacity = larger;
  }
  memmove(areas.sorted + index + 1, areas.sorted + index, (areas.count++ - index) * sizeof *areas.sorted);
  areas.sorted[index] = area;
  return 1;
}

static void forget_some_freed(void) {
  for (uint64_t k = 0; k < areas.count && areas.freed > MOST_FREED / 2;)
    if (areas.sorted[k]->is_freed) remove_at(k);
    else k++;
}

// Addresses that are used again are no longer those of earlier allocations; padding that turns out to be used was none.
static void make_room(uint64_t begin, uint64_t end) {
  for (uint64_t k = behind(begin); k < areas.count && areas.sorted[k]->begin < end;) {
    struct drv_area *old = areas.sorted[k];
    if (!old->is_freed && old->end <= begin) old->reserved_end = begin, k++;
    else remove_at(k);
  }
}

static uint64_t reserved_end(const struct drv_allocated *of) {
  uint64_t end = of->address + of->bytes, page = (end + RPL_PAGE_BYTES - 1) / RPL_PAGE_BYTES * RPL_PAGE_BYTES;
  return of->reserved ? of->address + of->reserved : page;
}

void drv_area_allocated(const struct drv_allocated *of) {
  if (!drv_check_is_on(RPL_ON_DEVICE) || !of->bytes) return;
  struct drv_area *area = calloc(1, sizeof *area);
  if (!area) return;
  *area = (struct drv_area){.begin = of->address, .end = of->address + of->bytes, .reserved_end = reserved_end(of), .site = of->site};
  if (!of->is_initialised && drv_check_is_on(RPL_ON_UNINITIALISED)) {
    area->initialised = rpl_shadow_map(shadow_bytes(area));
  }
  pthread_mutex_lock(&areas.lock);
  make_room(area->begin, area->end);
  uint64_t at = behind(area->begin);
  if (at < areas.count && areas.sorted[at]->begin < area->reserved_end) area->reserved_end = areas.sorted[at]->begin;
  if (!insert_at(at, area)) free(area);
  atomic_fetch_add(&areas.version, 1);
  pthread_mutex_unlock(&areas.lock);
}

void drv_area_freed(uint64_t address, uint64_t site) {
  if (!drv_check_is_on(RPL_ON_DEVICE)) return;
  pthread_mutex_lock(&areas.lock);
  uint64_t k = behind(address);
  if (k < areas.count && areas.sorted[k]->begin == address && !areas.sorted[k]->is_freed) {
    struct drv_area *area = areas.sorted[k];
    area->is_freed = 1;
    area->freed_site = site;
    drop_shadow(area);
    if (++areas.freed > MOST_FREED) forget_some_freed();
    atomic_fetch_add(&areas.version, 1);
  }
  pthread_mutex_unlock(&areas.lock);
}

static void mark(const struct drv_area *a, uint64_t begin, uint64_t end) {
  uint8_t *bits = a->initialised - a->begin / DWORD;  // by number of the dword
  uint64_t first = begin / DWORD, last = (end - 1) / DWORD;
  uint8_t head = (uint8_t)(ALL_BYTES << begin % DWORD & ALL_BYTES), tail = (uint8_t)(ALL_BYTES >> (DWORD - 1 - (end - 1) % DWORD));
  if (first == last) {
    bits[first] |= head & tail;
    return;
  }
  bits[first] |= head;
  memset(bits + first + 1, ALL_BYTES, last - first - 1);
  bits[last] |= tail;
}

void drv_area_written(uint64_t address, uint64_t bytes) {
  if (!bytes || !drv_check_is_on(RPL_ON_UNINITIALISED)) return;
  uint64_t end = address + bytes;
  pthread_mutex_lock(&areas.lock);
  for (uint64_t k = behind(address); k < areas.count && areas.sorted[k]->begin < end; k++) {
    const struct drv_area *a = areas.sorted[k];
    uint64_t from = a->begin > address ? a->begin : address, to = a->end < end ? a->end : end;
    if (!a->is_freed && a->initialised && from < to) mark(a, from, to);
  }
  pthread_mutex_unlock(&areas.lock);
}

struct drv_area_answer drv_area_find(uint64_t address) {
  pthread_mutex_lock(&areas.lock);
  uint64_t k = behind(address);
  const struct drv_area *a = k < areas.count ? areas.sorted[k] : NULL;
  struct drv_area_answer answer;
  if (a && !a->is_freed && address < a->begin && a->begin - address <= FRONT_BYTES)
    answer = (struct drv_area_answer){.begin = address, .end = a->begin, .near = a};
  else if (!a || address < a->begin)
    answer = (struct drv_area_answer){.begin = k ? areas.sorted[k - 1]->reserved_end : 0, .end = !a ? UINT64_MAX : a->is_freed ? a->begin : a->begin - FRONT_BYTES};
  else if (a->is_freed)
    answer = (struct drv_area_answer){a->begin, a->reserved_end, NULL, a};
  else if (address < a->end)
    answer = (struct drv_area_answer){a->begin, a->end, a, NULL};
  else
    answer = (struct drv_area_answer){a->end, a->reserved_end, NULL, a};
  pthread_mutex_unlock(&areas.lock);
  return answer;
}

void drv_areas_forget(void) {
  pthread_mutex_init(&areas.lock, NULL);
  areas.count = areas.freed = 0;
  atomic_fetch_add(&areas.version, 1);
}
