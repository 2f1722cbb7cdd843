// Trace of a sampled wavefront in 64-bit words for the timing engine; see enum rpl_trace_tag.
#include <stdlib.h>
#include "access.h"
#include "coalescing.h"

enum { TAG_SHIFT = 56, SCALAR_LINE_SHIFT = 6, MAX_LINES = 2 * RPL_LANES, GROUP_LANES = 16,
       SECTOR_BYTES = 32, PIPE_BYTES = 64, MIN_CYCLES = 4, ATOMIC_CYCLES = 4, REPEATED_ATOMIC_CYCLES = 20 };

void rpl_trace_append(struct rpl_trace *t, const uint64_t *words, uint64_t count) {
  if (t->limit && t->count + count > t->limit) {
    t->limit = t->count ? t->count : 1;  // later, shorter records are left out as well
    return;
  }
  if (t->count + count > t->capacity) {
    uint64_t capacity = 2 * (t->count + count) + 64;
    uint64_t *grown = realloc(t->words, capacity * sizeof *grown);
    if (!grown) return;  // truncated trace: the timing engine extrapolates; results are not affected
    t->words = grown;
    t->capacity = capacity;
  }
  memcpy(t->words + t->count, words, count * sizeof *words);
  t->count += count;
}

void rpl_trace_block(struct rpl_wave *w, int block) {
  if (!w->trace) return;
  uint64_t word = (uint64_t)RPL_T_BLOCK << TAG_SHIFT | (uint32_t)block;
  rpl_trace_append(w->trace, &word, 1);
}

// Lines of one vector instruction with the bytes that its lanes access, in order of first access.
struct line_set { uint64_t line[MAX_LINES], bytes[MAX_LINES][2]; uint32_t count; };

static void touch(struct line_set *s, uint64_t line, uint32_t first, uint32_t count) {
  uint32_t k = s->count;
  while (k > 0 && s->line[k - 1] != line) k--;
  if (k == 0) {
    if (s->count == MAX_LINES) return;
    k = ++s->count;
    s->line[k - 1] = line;
    s->bytes[k - 1][0] = s->bytes[k - 1][1] = 0;
  }
  uint64_t *bytes = s->bytes[k - 1], mask = (1ull << count) - 1;  // an access has at most 16 bytes
  if (first < 64) bytes[0] |= mask << first;
  if (first >= 64) bytes[1] |= mask << (first - 64);
  else if (first + count > 64) bytes[1] |= mask >> (64 - first);
}

static uint64_t line_word(const struct line_set *s, uint32_t k) {
  uint64_t sectors = 0, partial = 0;
  for (uint32_t sector = 0; sector < 4; sector++) {
    uint32_t bytes = (uint32_t)(s->bytes[k][sector >> 1] >> 32 * (sector & 1));
    sectors |= (uint64_t)(bytes != 0) << sector;
    partial |= bytes != 0 && bytes != ~0u;
  }
  return s->line[k] << RPL_LINE_SHIFT | sectors << RPL_LINE_SECTOR_SHIFT | (partial ? RPL_LINE_PARTIAL : 0);
}

// Returns the number of distinct lines that the active lanes [first, first + count) access.
static uint32_t lines_of_lanes(uint64_t lanes, const uint64_t *address, uint32_t width, int first, int count) {
  uint64_t seen[2 * GROUP_LANES];
  uint32_t lines = 0;
  for (int l = first; l < first + count; l++) {
    if (!(lanes >> l & 1)) continue;
    uint64_t last = (address[l] + width - 1) >> RPL_LINE_SHIFT;
    for (uint64_t line = address[l] >> RPL_LINE_SHIFT; line <= last; line++) {
      uint32_t k = 0;
      while (k < lines && seen[k] != line) k++;
      if (k == lines && lines < 2 * GROUP_LANES) seen[lines++] = line;
    }
  }
  return lines;
}

// Lanes are coalesced in groups of 16: a group takes a clock per line, or per 64 bytes that it moves.
static uint64_t address_cycles(uint64_t lanes, const uint64_t *address, uint32_t width) {
  uint64_t cycles = 0;
  for (int first = 0; first < RPL_LANES; first += GROUP_LANES) {
    uint64_t active = (uint64_t)__builtin_popcountll(lanes >> first & ((1ull << GROUP_LANES) - 1));
    uint64_t lines = lines_of_lanes(lanes, address, width, first, GROUP_LANES);
    uint64_t moved = (active * width + PIPE_BYTES - 1) / PIPE_BYTES;
    cycles += lines > moved ? lines : moved;
  }
  return cycles > MIN_CYCLES ? cycles : MIN_CYCLES;
}

// Adjacent lanes that modify adjacent words of 64 bytes are one request. Requests of one instruction are pipelined, but lanes that
// modify the same word follow each other.
static uint64_t atomic_cycles(uint64_t lanes, const uint64_t *address, uint32_t width) {
  uint64_t requests = 0, repeats = 0, next = 0;
  RPL_FOR_LANES(lanes, l) {
    int earlier = (int)l - 1;
    while (earlier >= 0 && !(lanes >> earlier & 1 && address[earlier] == address[l])) earlier--;
    if (earlier >= 0) repeats++;
    else if (!requests || address[l] != next || address[l] % PIPE_BYTES == 0) requests++;
    next = address[l] + width;
  }
  uint64_t cycles = requests * ATOMIC_CYCLES + repeats * REPEATED_ATOMIC_CYCLES;
  return cycles < 0xffff ? cycles : 0xffff;
}

void rpl_trace_vector(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  struct line_set set;
  set.count = 0;  // the rest is set when it is used
  RPL_FOR_LANES(lanes, l) {
    uint64_t at = address[l], end = address[l] + width;
    while (at < end) {
      uint64_t line = at >> RPL_LINE_SHIFT, next = (line + 1) << RPL_LINE_SHIFT, stop = next < end ? next : end;
      touch(&set, line, (uint32_t)(at & 127), (uint32_t)(stop - at));
      at = stop;
    }
  }
  uint64_t words[2 + MAX_LINES], serial = access == RPL_ATOMIC ? atomic_cycles(lanes, address, width) : 0;
  words[0] = (uint64_t)RPL_T_VMEM << TAG_SHIFT | (uint64_t)(1 + set.count) << 32 | (uint32_t)inst;
  words[1] = (uint64_t)RPL_T_DETAIL << TAG_SHIFT | (uint64_t)rpl_requests_of(lanes, address, width, RPL_LINE_SHIFT).lookups << 32 | serial << 16 |
             address_cycles(lanes, address, width);
  for (uint32_t k = 0; k < set.count; k++) words[2 + k] = line_word(&set, k);
  rpl_trace_append(w->trace, words, 2 + set.count);
}

void rpl_trace_scalar(struct rpl_wave *w, int inst, uint64_t address, uint32_t width) {
  uint64_t words[1 + RPL_LANES], count = 0, last = (address + width - 1) >> SCALAR_LINE_SHIFT;
  for (uint64_t line = address >> SCALAR_LINE_SHIFT; line <= last && count < RPL_LANES; line++) words[++count] = line << SCALAR_LINE_SHIFT;
  words[0] = (uint64_t)RPL_T_SMEM << TAG_SHIFT | count << 32 | (uint32_t)inst;
  rpl_trace_append(w->trace, words, 1 + count);
}
