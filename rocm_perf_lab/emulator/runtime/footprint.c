// Sampling of accessed lines. Equal launches record equal lines whatever the number of threads and the addresses of their
// buffers: a line is sampled by its offset within the allocation, and the filters depend on one wavefront only.
#include "footprint.h"

#include <stdlib.h>

#include "access.h"

enum { DENSE_LINES = 64, ALL_SECTORS = 15, REPEAT_INSTRUCTIONS = 16, FIRST_CAPACITY = 4096 };

static inline uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  x = (x ^ x >> 12) * 0x297a2d39u;
  return x ^ x >> 15;
}

// The sampled line of a group of 2^shift lines. 2^shift consecutive groups choose 2^shift different positions, so that the
// sample of contiguous data contains all channels; which group chooses which position depends on a hash.
static inline uint32_t chosen_line(uint32_t group, uint32_t shift) {
  return group << shift | ((mixed(group >> shift) ^ group) & ((1u << shift) - 1));
}

// Of two neighbouring groups one remains at level 1, of two neighbouring pairs one pair at level 2, and so on, so that a level
// keeps a part of the lower one.
static inline int is_kept(uint64_t place, uint32_t shift, uint32_t level) {
  uint32_t group = (uint32_t)place >> shift;
  for (uint32_t k = 1; k <= level; k++, group >>= 1)
    if ((group ^ mixed(group >> 1 ^ k << 27)) & 1) return 0;
  return 1;
}

void rpl_footprint_thin(struct rpl_footprint *f, uint32_t level) {
  uint64_t kept = 0;
  for (uint64_t k = 0; k < f->count; k++)
    if (is_kept(f->records[k].place, f->shift, level)) f->records[kept++] = f->records[k];
  f->count = kept;
  f->level = level;
}

void rpl_footprint_free(struct rpl_footprint *f) {
  free(f->records);
  f->records = NULL;
  f->count = f->capacity = 0;
}

static int has_room(struct rpl_footprint *f) {
  while (f->count >= f->limit && f->shift + f->level < RPL_MAX_SAMPLING_SHIFT) rpl_footprint_thin(f, f->level + 1);
  if (f->count < f->capacity) return 1;
  uint64_t capacity = f->capacity ? 2 * f->capacity : FIRST_CAPACITY;
  struct rpl_line_access *grown = realloc(f->records, capacity * sizeof *grown);
  if (!grown) {
    f->is_truncated = 1;
    return 0;
  }
  f->records = grown;
  f->capacity = capacity;
  return 1;
}

// A wavefront that loads a line again within a few instructions hits L1.
static int is_repeated(struct rpl_wave *w, uint64_t place) {
  for (uint32_t k = 0; k < RPL_RECENT_PLACES; k++) {
    if (w->recent_places[k] != place) continue;
    uint32_t elapsed = w->memory_instructions - w->recent_times[k];
    w->recent_times[k] = w->memory_instructions;
    return elapsed <= REPEAT_INSTRUCTIONS;
  }
  w->recent_places[w->oldest_place] = place;
  w->recent_times[w->oldest_place] = w->memory_instructions;
  w->oldest_place = (w->oldest_place + 1) % RPL_RECENT_PLACES;
  return 0;
}

static void record(struct rpl_wave *w, uint64_t instruction, uint32_t line, uint32_t sectors, uint32_t bytes) {
  struct rpl_footprint *f = w->machine->footprint;
  uint32_t dwords = (bytes + 3) / 4;
  uint64_t place = instruction | line | (uint64_t)sectors << RPL_PLACE_SECTORS;
  if ((instruction >> RPL_PLACE_KIND & 3) == RPL_LOAD && is_repeated(w, place)) return;
  if (!is_kept(place, f->shift, f->level) || !has_room(f)) return;
  if (!is_kept(place, f->shift, f->level)) return;  // the level has risen
  place |= (uint64_t)((dwords > 32 ? 32 : dwords) - 1) << RPL_PLACE_DWORDS;
  f->records[f->count++] = (struct rpl_line_access){place, w->workgroup_number, w->memory_instructions};
}

static uint32_t sectors_of(uint32_t first_byte, uint32_t end_byte) {
  uint32_t first = first_byte >> RPL_CACHED_SECTOR_SHIFT, last = (end_byte - 1) >> RPL_CACHED_SECTOR_SHIFT;
  return ((2u << last) - 1) & ~((1u << first) - 1);
}

static int is_contiguous(const uint64_t *address, uint32_t width) {
  uint64_t differs = 0;
  for (uint64_t l = 0; l < RPL_LANES; l++) differs |= address[l] ^ (address[0] + l * width);
  return !differs;
}

// Accessed part of a line within the range of an instruction.
struct part { uint8_t sectors; uint16_t bytes; };

static void add_bytes(struct part *parts, uint64_t offset, uint32_t width) {
  while (width) {
    uint32_t at = (uint32_t)offset & (RPL_CACHED_LINE_BYTES - 1), take = RPL_CACHED_LINE_BYTES - at < width ? RPL_CACHED_LINE_BYTES - at : width;
    struct part *p = &parts[offset >> RPL_CACHED_LINE_SHIFT];
    p->sectors |= (uint8_t)sectors_of(at, at + take);
    p->bytes = (uint16_t)(p->bytes + take);
    offset += take;
    width -= take;
  }
}

// Bit k: an active lane accesses line k after `start`, which is at most DENSE_LINES - 1.
static uint64_t accessed_lines(uint64_t lanes, const uint64_t *address, uint32_t width, uint64_t start) {
  uint64_t lines = 0, over = width - 1;
  for (uint64_t l = 0; l < RPL_LANES; l++) {
    uint64_t offset = address[l] - start, active = -(lanes >> l & 1);
    lines |= (1ull << (offset >> RPL_CACHED_LINE_SHIFT & 63) | 1ull << ((offset + over) >> RPL_CACHED_LINE_SHIFT & 63)) & active;
  }
  return lines;
}

static void record_contiguous(struct rpl_wave *w, uint64_t instruction, uint32_t line, uint64_t low, uint64_t high) {
  uint64_t start = (uint64_t)line << RPL_CACHED_LINE_SHIFT, end = start + RPL_CACHED_LINE_BYTES;
  uint32_t from = (uint32_t)((start > low ? start : low) - start), to = (uint32_t)((end < high ? end : high) - start);
  record(w, instruction, line, sectors_of(from, to), to - from);
}

// All lanes are within at most DENSE_LINES consecutive lines. [low, high) are offsets in the allocation at `base`.
static void record_dense(struct rpl_wave *w, uint64_t instruction, int is_load, uint64_t lanes, const uint64_t *address,
                         uint32_t width, uint64_t base, uint64_t low, uint64_t high) {
  uint32_t shift = w->machine->footprint->shift;
  uint32_t first = (uint32_t)(low >> RPL_CACHED_LINE_SHIFT), last = (uint32_t)((high - 1) >> RPL_CACHED_LINE_SHIFT);
  uint32_t sampled[DENSE_LINES], count = 0;
  for (uint32_t group = first >> shift; group <= last >> shift; group++) {
    uint32_t line = chosen_line(group, shift);
    if (line >= first && line <= last) sampled[count++] = line;
  }
  if (!count) return;
  if (is_load) {  // L1 fetches whole lines, whatever the lanes need
    uint64_t start = base + ((uint64_t)first << RPL_CACHED_LINE_SHIFT);
    uint64_t accessed = first == last ? 1 : accessed_lines(lanes, address, width, start);
    for (uint32_t k = 0; k < count; k++)
      if (accessed >> (sampled[k] - first) & 1) record(w, instruction, sampled[k], ALL_SECTORS, RPL_CACHED_LINE_BYTES);
    return;
  }
  if (lanes == RPL_ALL_LANES && high - low == (uint64_t)width * RPL_LANES && is_contiguous(address, width)) {
    for (uint32_t k = 0; k < count; k++) record_contiguous(w, instruction, sampled[k], low, high);
    return;
  }
  struct part parts[DENSE_LINES];
  memset(parts, 0, (last - first + 1) * sizeof parts[0]);
  uint64_t start = base + ((uint64_t)first << RPL_CACHED_LINE_SHIFT);
  RPL_FOR_LANES(lanes, l) add_bytes(parts, address[l] - start, width);
  for (uint32_t k = 0; k < count; k++) {
    const struct part *p = &parts[sampled[k] - first];
    if (p->sectors) record(w, instruction, sampled[k], p->sectors, p->bytes);
  }
}

// Sampled lines of one instruction, each once.
struct found { uint32_t lines[2 * RPL_LANES], count, lowest, highest; struct part parts[2 * RPL_LANES]; };

static void add_found(struct found *f, uint32_t line, uint32_t at, uint32_t bytes) {
  uint32_t k = 0;
  if (f->count && line >= f->lowest && line <= f->highest)
    for (k = f->count; k > 0 && f->lines[k - 1] != line;) k--;
  if (k == 0) {
    k = ++f->count;
    f->lines[k - 1] = line;
    f->parts[k - 1] = (struct part){0, 0};
    f->lowest = line < f->lowest ? line : f->lowest;
    f->highest = line > f->highest ? line : f->highest;
  }
  f->parts[k - 1].sectors |= (uint8_t)sectors_of(at, at + bytes);
  f->parts[k - 1].bytes = (uint16_t)(f->parts[k - 1].bytes + bytes);
}

static void record_scattered(struct rpl_wave *w, uint64_t instruction, int is_load, uint64_t lanes, const uint64_t *address,
                             uint32_t width, uint64_t base) {
  uint32_t shift = w->machine->footprint->shift, straddling = 0;
  uint64_t chosen = 0;
  for (uint64_t l = 0; l < RPL_LANES; l++) {
    uint64_t offset = address[l] - base;
    uint32_t line = (uint32_t)(offset >> RPL_CACHED_LINE_SHIFT);
    chosen |= (uint64_t)(line == chosen_line(line >> shift, shift)) << l;
    straddling |= ((uint32_t)offset & (RPL_CACHED_LINE_BYTES - 1)) + width > RPL_CACHED_LINE_BYTES;
  }
  struct found found;
  found.count = found.highest = 0;
  found.lowest = ~0u;
  RPL_FOR_LANES(straddling ? lanes : lanes & chosen, l) {
    for (uint64_t offset = address[l] - base, end = offset + width; offset < end;) {
      uint32_t line = (uint32_t)(offset >> RPL_CACHED_LINE_SHIFT), at = (uint32_t)offset & (RPL_CACHED_LINE_BYTES - 1);
      uint32_t take = RPL_CACHED_LINE_BYTES - at < end - offset ? RPL_CACHED_LINE_BYTES - at : (uint32_t)(end - offset);
      offset += take;
      if (line == chosen_line(line >> shift, shift)) add_found(&found, line, at, take);
    }
  }
  for (uint32_t k = 0; k < found.count; k++)
    record(w, instruction, found.lines[k], is_load ? ALL_SECTORS : found.parts[k].sectors,
           is_load ? RPL_CACHED_LINE_BYTES : found.parts[k].bytes);
}

// ---- channels in short windows of time ----

static void count_line(struct rpl_footprint *f, uint32_t *window, int is_load, uint64_t allocation, uint32_t workgroup, uint32_t line) {
  if (is_load) {  // later ones of the workgroup hit L1
    uint64_t key = (allocation & 0x7f) << 56 ^ (uint64_t)workgroup << 32 ^ line ^ 1ull << 63;
    uint64_t *slot = &f->counted[mixed(line ^ workgroup * 0x9E3779B9u ^ (uint32_t)allocation << 20) % RPL_COUNTED_LINES];
    if (*slot == key) return;
    *slot = key;
  }
  uint64_t address = (uint64_t)line << RPL_CACHED_LINE_SHIFT;
  uint32_t channel = 0;
  for (uint32_t k = 0; k < f->channel_bits; k++) channel |= (uint32_t)__builtin_parityll(address & f->channel_masks[k]) << k;
  window[channel]++;
}

// Counts every line that the instruction accesses. Allocations are taken to begin at equal channels.
static void count_channels(struct rpl_wave *w, int is_load, uint64_t allocation, uint64_t lanes, const uint64_t *address,
                           uint32_t width, uint64_t base, uint64_t low, uint64_t high) {
  struct rpl_footprint *f = w->machine->footprint;
  uint32_t number = w->workgroup_number % f->xcds * RPL_WINDOWS + w->memory_instructions / RPL_WINDOW_INSTRUCTIONS, last = ~0u;
  uint32_t *window = f->windows + ((uint64_t)number << f->channel_bits), group = w->workgroup_number;
  uint32_t first = (uint32_t)(low >> RPL_CACHED_LINE_SHIFT), end = (uint32_t)((high - 1) >> RPL_CACHED_LINE_SHIFT);
  if (end - first < DENSE_LINES) {
    uint64_t lines = first == end ? 1 : accessed_lines(lanes, address, width, base + ((uint64_t)first << RPL_CACHED_LINE_SHIFT));
    RPL_FOR_LANES(lines, k) count_line(f, window, is_load, allocation, group, first + (uint32_t)k);
    return;
  }
  RPL_FOR_LANES(lanes, l) {
    uint32_t line = (uint32_t)((address[l] - base) >> RPL_CACHED_LINE_SHIFT);
    if (line != last) count_line(f, window, is_load, allocation, group, line);
    last = line;
  }
}

// ---- accesses ----

// `low` and `high` are offsets from `base`.
static void record_access(struct rpl_wave *w, uint64_t allocation, int access, int scalar, uint64_t lanes, const uint64_t *address,
                          uint32_t width, uint64_t base, uint64_t low, uint64_t high) {
  struct rpl_footprint *f = w->machine->footprint;
  uint64_t instruction = allocation << RPL_PLACE_ALLOCATION | (uint64_t)access << RPL_PLACE_KIND |
                         (uint64_t)scalar << RPL_PLACE_SCALAR | (uint64_t)(w->wave_in_workgroup & 15) << RPL_PLACE_WAVE;
  int is_dense = low / RPL_CACHED_LINE_BYTES + DENSE_LINES > (high - 1) / RPL_CACHED_LINE_BYTES;
  // Wavefronts of a workgroup load the same scalars, as a rule, so that the scalar cache serves all but the first.
  int is_recorded = !scalar || w->wave_in_workgroup == 0;
  if (is_recorded && is_dense) record_dense(w, instruction, access == RPL_LOAD, lanes, address, width, base, low, high);
  else if (is_recorded) record_scattered(w, instruction, access == RPL_LOAD, lanes, address, width, base);
  int in_window = f->windows && !scalar && w->memory_instructions < RPL_WINDOW_INSTRUCTIONS * RPL_WINDOWS;
  if (in_window && w->workgroup_number < RPL_WINDOW_GROUPS * f->xcds)
    count_channels(w, access == RPL_LOAD, allocation, lanes, address, width, base, low, high);
  uint32_t *longest = &f->memory_instructions[w->workgroup_number];
  if (++w->memory_instructions > *longest) *longest = w->memory_instructions;
}

// Index of the allocation of the last hit, and in `base` the address from which its lines are counted. While a kernel runs, the
// registry may be replaced by one with new allocations, in which the others have other indices.
static uint64_t numbered(const struct rpl_machine *m, uint64_t low, uint64_t *base) {
  const struct rpl_footprint *f = m->footprint;
  const struct rpl_allocation *hit = &m->allocations[m->last_hit];
  uint64_t number = m->last_hit;
  if (f->known && f->known != m->allocations) {
    uint64_t after = f->known_count;
    number = 0;
    while (number < after) {
      uint64_t middle = (number + after) / 2;
      if (f->known[middle].end <= low) number = middle + 1;
      else after = middle;
    }
    if (number < f->known_count && f->known[number].begin <= low) hit = &f->known[number];
    else number = RPL_NEW_ALLOCATION;
  }
  *base = hit->begin & ~(uint64_t)(RPL_CACHED_LINE_BYTES - 1);
  return number < RPL_NEW_ALLOCATION ? number : RPL_NEW_ALLOCATION;
}

void rpl_footprint_access(struct rpl_wave *w, int access, int scalar, uint64_t lanes, const uint64_t *address, uint32_t width,
                          uint64_t low, uint64_t high) {
  uint64_t base, allocation = numbered(w->machine, low, &base);
  record_access(w, allocation, access, scalar, lanes, address, width, base, low - base, high - base);
}

void rpl_footprint_private(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *inner, uint32_t width) {
  if (!lanes) return;
  uint32_t xcds = w->machine->footprint->xcds;
  uint64_t wave_bytes = ((uint64_t)w->scratch_bytes * RPL_LANES + RPL_CACHED_LINE_BYTES - 1) & ~(uint64_t)(RPL_CACHED_LINE_BYTES - 1);
  uint64_t slot = w->workgroup_number % xcds * RPL_PRIVATE_SLOTS + w->workgroup_number / xcds % RPL_PRIVATE_SLOTS;
  uint64_t base = (slot * w->waves_in_workgroup + w->wave_in_workgroup) * wave_bytes, low = ~0ull, high = 0, offset[RPL_LANES] = {0};
  RPL_FOR_LANES(lanes, l) {
    offset[l] = base + inner[l] * RPL_LANES + l * width;
    low = offset[l] < low ? offset[l] : low;
    high = offset[l] + width > high ? offset[l] + width : high;
  }
  record_access(w, RPL_PRIVATE_ALLOCATION, access, 0, lanes, offset, width, 0, low, high);
}
