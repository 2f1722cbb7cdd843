// Address ranges that GPUs can access: disjoint segments, sorted by address, and snapshots of them for running kernels.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "maps.h"

enum { FIRST_CAPACITY = 256, CHECKED_SEGMENTS = 64, CHECK_INTERVAL_NS = 20000 };
enum { IS_SVM = 1, IS_FAULTED = 2 };
struct segment {
  uint64_t begin, end;
  uint32_t count;      // of RPL_RANGE_COUNTED additions that cover it
  uint32_t bits;
};
pthread_mutex_t drv_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct segment *segments;
static uint64_t segment_count, capacity;
static atomic_int has_host_memory;   // segments that are not counted
static _Atomic uint64_t version = 1;
static struct drv_ranges *newest;      // holds one user itself

int drv_is_mapped(uint64_t begin, uint64_t end) {
  // MS_ASYNC writes nothing; the call fails with ENOMEM if any page is not mapped.
  uint64_t first = begin & ~(uint64_t)(RPL_PAGE_BYTES - 1);
  return msync((void *)first, end - first, MS_ASYNC) == 0;
}

// Index of the first segment that ends behind `address`.
static uint64_t find(uint64_t address) {
  uint64_t low = 0, high = segment_count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (segments[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void insert(uint64_t index, struct segment segment) {
  memmove(segments + index + 1, segments + index, (segment_count - index) * sizeof *segments);
  segments[index] = segment;
  segment_count++;
}

static void split(uint64_t address) {
  uint64_t i = find(address);
  if (i == segment_count || segments[i].begin >= address)
    return;
  struct segment right = segments[i];
  right.begin = address;
  segments[i].end = address;
  insert(i + 1, right);
}

static int same_kind(const struct segment *a, const struct segment *b) { return a->count == b->count && a->bits == b->bits; }

// Drops empty segments and joins equal neighbours around [begin, end).
static void tidy(uint64_t begin, uint64_t end) {
  uint64_t from = find(begin);
  if (from > 0)
    from--;
  uint64_t to = from, i = from;
  for (; i < segment_count && segments[i].begin <= end; i++) {
    if (!segments[i].count && !segments[i].bits)
      continue;
    if (to > from && segments[to - 1].end == segments[i].begin && same_kind(&segments[to - 1], &segments[i]))
      segments[to - 1].end = segments[i].end;
    else
      segments[to++] = segments[i];
  }
  memmove(segments + to, segments + i, (segment_count - i) * sizeof *segments);
  segment_count -= i - to;
}

// Room for the splits and the gaps that one change of [begin, end) can add.
static int reserve(uint64_t begin, uint64_t end) {
  uint64_t inside = find(end) - find(begin);
  uint64_t needed = segment_count + inside + 4;
  if (needed <= capacity)
    return 1;
  uint64_t larger = capacity ? capacity : FIRST_CAPACITY;
  while (larger < needed)
    larger *= 2;
  struct segment *moved = realloc(segments, larger * sizeof *segments);
  if (!moved)
    return 0;
  segments = moved;
  capacity = larger;
  return 1;
}

static void fill_gaps(uint64_t begin, uint64_t end) {
  uint64_t at = begin;
  for (uint64_t i = find(begin); at < end; i++) {
    uint64_t next = i < segment_count && segments[i].begin < end ? segments[i].begin : end;
    if (at < next) {
      insert(i, (struct segment){at, next, 0, 0});
      at = next;
    } else {
      at = segments[i].end;
    }
  }
}

int drv_ranges_add_locked(enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  if (begin >= end)
    return 0;
  if (!reserve(begin, end))
    return ENOMEM;
  split(begin);
  split(end);
  fill_gaps(begin, end);
  for (uint64_t i = find(begin); i < segment_count && segments[i].begin < end; i++) {
    if (kind == RPL_RANGE_COUNTED)
      segments[i].count++;
    else
      segments[i].bits |= kind == RPL_RANGE_SVM ? IS_SVM : IS_FAULTED;
  }
  has_host_memory |= kind != RPL_RANGE_COUNTED;
  tidy(begin, end);
  version++;
  return 0;
}

void drv_ranges_remove_locked(enum drv_range_kind kind, uint64_t begin, uint64_t end) {
  if (begin >= end || !reserve(begin, end))
    return;
  split(begin);
  split(end);
  for (uint64_t i = find(begin); i < segment_count && segments[i].begin < end; i++) {
    if (kind == RPL_RANGE_COUNTED)
      segments[i].count -= segments[i].count > 0;
    else
      segments[i].bits &= ~(uint32_t)(kind == RPL_RANGE_SVM ? IS_SVM : IS_FAULTED);
  }
  tidy(begin, end);
  version++;
}

static void drop(uint64_t begin, uint64_t end) {
  drv_ranges_remove_locked(RPL_RANGE_FAULTED, begin, end);
  drv_ranges_remove_locked(RPL_RANGE_SVM, begin, end);
}

// Drops what is before `mapping`; `argument`: end of the mapping before.
static int drop_gap(const struct drv_mapping *mapping, void *argument) {
  uint64_t *mapped_end = argument;
  drop(*mapped_end, mapping->begin);
  *mapped_end = mapping->end;
  return 0;
}

static void drop_gaps(uint64_t begin, uint64_t end) {
  uint64_t mapped_end = begin;
  if (drv_for_each_mapping(begin, end, drop_gap, &mapped_end) == 0)
    drop(mapped_end, end);
}

// The host's own memory leaves the GPUs with its mapping, which nobody announces (the kernel notices it for KFD). Looks at a part
// of the segments; the next call continues behind them.
static void drop_unmapped(void) {
  static uint64_t next;           // address
  if (!has_host_memory)
    return;
  for (int seen = 0; seen < CHECKED_SEGMENTS; seen++) {
    uint64_t i = find(next);
    if (i == segment_count) {
      next = 0;
      return;
    }
    struct segment segment = segments[i];
    next = segment.end;
    if (segment.bits && !drv_is_mapped(segment.begin, segment.end))
      drop_gaps(segment.begin, segment.end);
  }
}

static void put(struct drv_ranges *ranges) {
  if (atomic_fetch_sub(&ranges->users, 1) == 1)
    free(ranges);
}

static struct drv_ranges *snapshot(void) {
  struct drv_ranges *made = malloc(sizeof *made + segment_count * sizeof made->ranges[0]);
  if (!made)
    return NULL;
  uint64_t count = 0;
  for (uint64_t i = 0; i < segment_count; i++) {
    // Neighbours are one range for a kernel, whatever they come from.
    if (count && made->ranges[count - 1].end == segments[i].begin)
      made->ranges[count - 1].end = segments[i].end;
    else
      made->ranges[count++] = (struct rpl_allocation){.begin = segments[i].begin, .end = segments[i].end};
  }
  atomic_init(&made->users, 1);
  made->version = version;
  made->count = count;
  return made;
}

const struct drv_ranges *drv_ranges_get(void) {
  pthread_mutex_lock(&drv_memory_lock);
  drop_unmapped();
  if (!newest || newest->version != version) {
    struct drv_ranges *made = snapshot();
    if (made) {
      if (newest)
        put(newest);
      newest = made;
    }
  }
  struct drv_ranges *result = newest;
  if (result)
    atomic_fetch_add(&result->users, 1);
  pthread_mutex_unlock(&drv_memory_lock);
  return result;
}

void drv_ranges_put(const struct drv_ranges *ranges) {
  if (ranges)
    put((struct drv_ranges *)ranges);
}

uint64_t drv_ranges_version(void) {
  static _Atomic uint64_t checked_ns;
  uint64_t now = has_host_memory ? drv_nanoseconds() : 0;
  if (has_host_memory && now - checked_ns > CHECK_INTERVAL_NS) {
    checked_ns = now;
    pthread_mutex_lock(&drv_memory_lock);
    drop_unmapped();
    pthread_mutex_unlock(&drv_memory_lock);
  }
  return version;
}

void drv_ranges_forget(void) {
  segment_count = capacity = 0;
  has_host_memory = 0;
  segments = NULL;     // not freed: another thread may have been moving it, or using the snapshot
  newest = NULL;
  version++;
}
