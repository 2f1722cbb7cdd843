// Address ranges that GPUs can access: disjoint segments, sorted by address, and snapshots of them for running kernels.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "maps.h"

enum { FIRST_CAPACITY = 256, CHECKED_SEGMENTS = 64, CHECK_INTERVAL_NS = 20000 };
enum { IS_SVM = 1, IS_FAULTED = 2, IS_HOST = IS_SVM | IS_FAULTED, IS_READ_ONLY = 4 /* for the host, at the time of the last look */ };
struct segment {
  uint64_t begin, end;
  uint32_t count;      // of RPL_RANGE_COUNTED additions that cover it
  uint32_t bits;
};
// What one GPU can access.
struct range_set {
  struct segment *segments;
  uint64_t segment_count, capacity;
  uint64_t version;               // that of the last change
  uint64_t next_checked;          // address
  struct drv_ranges *newest;      // holds one user itself
};
pthread_mutex_t drv_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct range_set sets[RPL_MAX_GPUS];
static atomic_int has_host_memory;   // segments that are not counted
static _Atomic uint64_t version = 1; // of all sets

int drv_is_mapped(uint64_t begin, uint64_t end) {
  // MS_ASYNC writes nothing; the call fails with ENOMEM if any page is not mapped.
  uint64_t first = begin & ~(uint64_t)(RPL_PAGE_BYTES - 1);
  return msync((void *)first, end - first, MS_ASYNC) == 0;
}

// Index of the first segment that ends behind `address`.
static uint64_t find(const struct range_set *set, uint64_t address) {
  uint64_t low = 0, high = set->segment_count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (set->segments[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void insert(struct range_set *set, uint64_t index, struct segment segment) {
  memmove(set->segments + index + 1, set->segments + index, (set->segment_count - index) * sizeof *set->segments);
  set->segments[index] = segment;
  set->segment_count++;
}

static void split(struct range_set *set, uint64_t address) {
  uint64_t i = find(set, address);
  if (i == set->segment_count || set->segments[i].begin >= address)
    return;
  struct segment right = set->segments[i];
  right.begin = address;
  set->segments[i].end = address;
  insert(set, i + 1, right);
}

static int same_kind(const struct segment *a, const struct segment *b) { return a->count == b->count && a->bits == b->bits; }

// Drops empty segments and joins equal neighbours around [begin, end).
static void tidy(struct range_set *set, uint64_t begin, uint64_t end) {
  uint64_t from = find(set, begin);
  if (from > 0)
    from--;
  uint64_t to = from, i = from;
  for (; i < set->segment_count && set->segments[i].begin <= end; i++) {
    if (!set->segments[i].count && !set->segments[i].bits)
      continue;
    if (to > from && set->segments[to - 1].end == set->segments[i].begin && same_kind(&set->segments[to - 1], &set->segments[i]))
      set->segments[to - 1].end = set->segments[i].end;
    else
      set->segments[to++] = set->segments[i];
  }
  memmove(set->segments + to, set->segments + i, (set->segment_count - i) * sizeof *set->segments);
  set->segment_count -= i - to;
}

// Room for the splits and the gaps that one change of [begin, end) can add.
static int reserve(struct range_set *set, uint64_t begin, uint64_t end) {
  uint64_t inside = find(set, end) - find(set, begin);
  uint64_t needed = set->segment_count + inside + 4;
  if (needed <= set->capacity)
    return 1;
  uint64_t larger = set->capacity ? set->capacity : FIRST_CAPACITY;
  while (larger < needed)
    larger *= 2;
  struct segment *moved = realloc(set->segments, larger * sizeof *set->segments);
  if (!moved)
    return 0;
  set->segments = moved;
  set->capacity = larger;
  return 1;
}

static void fill_gaps(struct range_set *set, uint64_t begin, uint64_t end) {
  uint64_t at = begin;
  for (uint64_t i = find(set, begin); at < end; i++) {
    uint64_t next = i < set->segment_count && set->segments[i].begin < end ? set->segments[i].begin : end;
    if (at < next) {
      insert(set, i, (struct segment){at, next, 0, 0});
      at = next;
    } else {
      at = set->segments[i].end;
    }
  }
}

// Sets or clears IS_READ_ONLY for the host's own memory in [begin, end). Returns whether that changes anything.
static int protect(struct range_set *set, uint64_t begin, uint64_t end, int is_read_only) {
  int changes = 0;
  for (uint64_t i = find(set, begin); i < set->segment_count && set->segments[i].begin < end; i++)
    changes |= set->segments[i].bits & IS_HOST && !(set->segments[i].bits & IS_READ_ONLY) == is_read_only;
  if (!changes || !reserve(set, begin, end))
    return 0;
  split(set, begin);
  split(set, end);
  for (uint64_t i = find(set, begin); i < set->segment_count && set->segments[i].begin < end; i++)
    if (set->segments[i].bits & IS_HOST)
      set->segments[i].bits = (set->segments[i].bits & IS_HOST) | (is_read_only ? IS_READ_ONLY : 0);
  tidy(set, begin, end);
  set->version = ++version;
  return 1;
}

// For each mapping: stores of a kernel to pages that the host may only read would end the application with a signal.
static int mark_read_only(const struct drv_mapping *mapping, void *argument) {
  protect(argument, mapping->begin, mapping->end, mapping->readable && !mapping->writable);
  return 0;
}

static int add(struct range_set *set, enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  if (!reserve(set, begin, end))
    return ENOMEM;
  split(set, begin);
  split(set, end);
  fill_gaps(set, begin, end);
  for (uint64_t i = find(set, begin); i < set->segment_count && set->segments[i].begin < end; i++) {
    if (kind == RPL_RANGE_COUNTED)
      set->segments[i].count++;
    else
      set->segments[i].bits = (set->segments[i].bits & ~(uint32_t)IS_READ_ONLY) | (kind == RPL_RANGE_SVM ? IS_SVM : IS_FAULTED);
  }
  if (kind != RPL_RANGE_COUNTED)
    drv_for_each_mapping(begin, end, mark_read_only, set);
  has_host_memory |= kind != RPL_RANGE_COUNTED;
  tidy(set, begin, end);
  set->version = ++version;
  return 0;
}

static void subtract(struct range_set *set, enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  if (!reserve(set, begin, end))
    return;
  split(set, begin);
  split(set, end);
  for (uint64_t i = find(set, begin); i < set->segment_count && set->segments[i].begin < end; i++) {
    if (kind == RPL_RANGE_COUNTED)
      set->segments[i].count -= set->segments[i].count > 0;
    else
      set->segments[i].bits &= ~(uint32_t)(kind == RPL_RANGE_SVM ? IS_SVM : IS_FAULTED);
    if (!(set->segments[i].bits & IS_HOST))
      set->segments[i].bits = 0;
  }
  tidy(set, begin, end);
  set->version = ++version;
}

int drv_ranges_add_locked(uint32_t gpus, enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  uint32_t done = 0;
  for (uint32_t gpu = 0; begin < end && gpu < RPL_MAX_GPUS; gpu++) {
    if (!(gpus >> gpu & 1))
      continue;
    if (add(&sets[gpu], kind, begin, end) != 0) {
      drv_ranges_remove_locked(done, kind, begin, end);
      return ENOMEM;
    }
    done |= 1u << gpu;
  }
  return 0;
}

void drv_ranges_remove_locked(uint32_t gpus, enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  for (uint32_t gpu = 0; begin < end && gpu < RPL_MAX_GPUS; gpu++)
    if (gpus >> gpu & 1)
      subtract(&sets[gpu], kind, begin, end);
}

struct gap { struct range_set *set; uint64_t mapped_end; };

static void drop(struct range_set *set, uint64_t begin, uint64_t end) {
  if (begin >= end)
    return;
  subtract(set, RPL_RANGE_FAULTED, begin, end);
  subtract(set, RPL_RANGE_SVM, begin, end);
}

// Drops what is before `mapping`.
static int drop_gap(const struct drv_mapping *mapping, void *argument) {
  struct gap *gap = argument;
  drop(gap->set, gap->mapped_end, mapping->begin);
  gap->mapped_end = mapping->end;
  return 0;
}

static void drop_gaps(struct range_set *set, uint64_t begin, uint64_t end) {
  struct gap gap = {set, begin};
  if (drv_for_each_mapping(begin, end, drop_gap, &gap) == 0)
    drop(set, gap.mapped_end, end);
}

// The host's own memory leaves the GPUs with its mapping, which nobody announces (the kernel notices it for KFD). Looks at a part
// of the segments; the next call continues behind them.
static void drop_unmapped(struct range_set *set) {
  if (!has_host_memory)
    return;
  for (int seen = 0; seen < CHECKED_SEGMENTS; seen++) {
    uint64_t i = find(set, set->next_checked);
    if (i == set->segment_count) {
      set->next_checked = 0;
      return;
    }
    struct segment segment = set->segments[i];
    set->next_checked = segment.end;
    if (segment.bits && !drv_is_mapped(segment.begin, segment.end))
      drop_gaps(set, segment.begin, segment.end);
  }
}

static void put(struct drv_ranges *ranges) {
  if (atomic_fetch_sub(&ranges->users, 1) == 1)
    free(ranges);
}

static struct drv_ranges *snapshot(const struct range_set *set) {
  struct drv_ranges *made = malloc(sizeof *made + set->segment_count * sizeof made->ranges[0]);
  if (!made)
    return NULL;
  uint64_t count = 0;
  for (uint64_t i = 0; i < set->segment_count; i++) {
    // Neighbours are one range for a kernel, whatever they come from.
    uint64_t life = set->segments[i].bits & IS_READ_ONLY ? RPL_READ_ONLY : RPL_LIVE;
    if (count && made->ranges[count - 1].end == set->segments[i].begin && made->ranges[count - 1].freed == life)
      made->ranges[count - 1].end = set->segments[i].end;
    else
      made->ranges[count++] = (struct rpl_allocation){.begin = set->segments[i].begin, .end = set->segments[i].end, .freed = life};
  }
  atomic_init(&made->users, 1);
  made->gpu = (uint32_t)(set - sets);
  made->version = set->version;
  made->count = count;
  return made;
}

const struct drv_ranges *drv_ranges_get(uint32_t gpu) {
  struct range_set *set = &sets[gpu];
  pthread_mutex_lock(&drv_memory_lock);
  drop_unmapped(set);
  if (!set->newest || set->newest->version != set->version) {
    struct drv_ranges *made = snapshot(set);
    if (made) {
      if (set->newest)
        put(set->newest);
      set->newest = made;
    }
  }
  struct drv_ranges *result = set->newest;
  if (result)
    atomic_fetch_add(&result->users, 1);
  pthread_mutex_unlock(&drv_memory_lock);
  return result;
}

// Adds a user.
const struct drv_ranges *drv_ranges_keep(const struct drv_ranges *ranges) {
  atomic_fetch_add(&((struct drv_ranges *)ranges)->users, 1);
  return ranges;
}

void drv_ranges_put(const struct drv_ranges *ranges) {
  if (ranges)
    put((struct drv_ranges *)ranges);
}

uint64_t drv_ranges_version(uint32_t gpu) {
  static _Atomic uint64_t checked_ns[RPL_MAX_GPUS];
  uint64_t now = has_host_memory ? drv_nanoseconds() : 0;
  if (has_host_memory && now - checked_ns[gpu] > CHECK_INTERVAL_NS) {
    checked_ns[gpu] = now;
    pthread_mutex_lock(&drv_memory_lock);
    drop_unmapped(&sets[gpu]);
    pthread_mutex_unlock(&drv_memory_lock);
  }
  return __atomic_load_n(&sets[gpu].version, __ATOMIC_ACQUIRE);
}

void drv_ranges_protected(uint64_t begin, uint64_t end, int is_read_only) {
  if (!has_host_memory)
    return;
  pthread_mutex_lock(&drv_memory_lock);
  for (uint32_t gpu = 0; gpu < RPL_MAX_GPUS; gpu++)
    protect(&sets[gpu], begin, end, is_read_only);
  pthread_mutex_unlock(&drv_memory_lock);
}

int drv_ranges_look_again(uint32_t gpu, uint64_t address) {
  struct range_set *set = &sets[gpu];
  pthread_mutex_lock(&drv_memory_lock);
  uint64_t i = find(set, address), before = set->version;
  if (i < set->segment_count && set->segments[i].begin <= address && set->segments[i].bits & IS_READ_ONLY)
    drv_for_each_mapping(address, address + 1, mark_read_only, set);
  int has_changed = set->version != before;
  pthread_mutex_unlock(&drv_memory_lock);
  return has_changed;
}

void drv_ranges_forget(void) {
  has_host_memory = 0;
  // Not freed: another thread may have been moving the segments, or using the snapshot.
  memset(sets, 0, sizeof sets);
  for (uint32_t gpu = 0; gpu < RPL_MAX_GPUS; gpu++)
    sets[gpu].version = ++version;
}
