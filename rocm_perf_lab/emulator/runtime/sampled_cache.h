// Set-associative cache of a sample of lines, of which 1 / sampling of the hardware's lines remains.
#ifndef RPL_SAMPLED_CACHE_H
#define RPL_SAMPLED_CACHE_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  uint32_t filled;      // time
  uint8_t is_complete;  // all bytes are valid
  uint8_t dirty;        // sectors
  uint8_t written;      // dwords, limited to the size of a line
  uint8_t padding;
};

// Arrays are [sets * ways]. A tag is the line plus one, 0 if empty.
struct cache {
  uint64_t *tags;
  uint32_t *used;
  struct entry *entries;
  uint32_t sets, ways, clock, sampling;
  uint64_t random;
};

enum { NOT_FOUND = -1 };

static inline uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline int cache_open(struct cache *c, uint32_t lines, uint32_t ways, uint32_t sampling) {
  uint32_t scaled = greater(lines / sampling, 1);
  c->ways = scaled < ways ? scaled : ways;
  c->sets = greater(scaled / c->ways, 1);
  c->clock = 0;
  c->sampling = sampling;
  c->random = 1;
  size_t count = (size_t)c->sets * c->ways;
  c->tags = calloc(count, sizeof *c->tags);
  c->used = calloc(count, sizeof *c->used);
  c->entries = calloc(count, sizeof *c->entries);
  return c->tags && c->used && c->entries;
}

static inline void cache_close(struct cache *c) {
  free(c->tags);
  free(c->used);
  free(c->entries);
}

static inline void cache_clear(struct cache *c) {
  memset(c->tags, 0, (size_t)c->sets * c->ways * sizeof *c->tags);
  memset(c->used, 0, (size_t)c->sets * c->ways * sizeof *c->used);
}

// Consecutive lines of the sample are in consecutive sets, so that contiguous data fill a cache evenly. Higher bits rotate the
// sets, so that strides do not meet in few of them.
static inline int64_t first_way(const struct cache *c, uint64_t line) {
  uint64_t number = line / c->sampling, round = number / c->sets;
  uint64_t rotation = (round ^ round >> 17) * 0x9E3779B97F4A7C15ull >> 40;
  return (int64_t)((number + rotation) % c->sets * c->ways);
}

// Returns the place of a line, or NOT_FOUND.
static inline int64_t cache_find(struct cache *c, uint64_t line) {
  int64_t first = first_way(c, line);
  for (int64_t k = first; k < first + c->ways; k++)
    if (c->tags[k] == line + 1) {
      c->used[k] = ++c->clock;
      return k;
    }
  return NOT_FOUND;
}

// The place to use for a line: an empty one, the least recently used one, or a random one.
static inline int64_t cache_victim(struct cache *c, uint64_t line, int at_random) {
  int64_t first = first_way(c, line), oldest = first;
  for (int64_t k = first; k < first + c->ways; k++) {
    if (!c->tags[k]) return k;
    if (c->used[k] < c->used[oldest]) oldest = k;
  }
  if (!at_random) return oldest;
  c->random = c->random * 6364136223846793005ull + 1442695040888963407ull;
  return first + (int64_t)((c->random >> 33) % c->ways);
}

static inline void cache_fill(struct cache *c, int64_t at, uint64_t line, uint32_t now) {
  c->tags[at] = line + 1;
  c->used[at] = ++c->clock;
  c->entries[at] = (struct entry){.filled = now};
}
#endif
