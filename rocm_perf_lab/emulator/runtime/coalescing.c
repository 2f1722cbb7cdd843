// The address unit in front of the vector L1 cache, as the counters TCP_TOTAL_ACCESSES and TCP_TOTAL_CACHE_ACCESSES show it.
//
// A copy of doubles makes 64 requests and 16 lookups per instruction on MI200, MI300X and MI350, and none of its instructions is
// coalescable (TD_COALESCABLE_WAVEFRONT): lanes of 8 bytes are not merged, and a lookup serves four of them. Elements of at most
// 4 bytes are merged by four, which makes a wave of contiguous dwords four lookups. Address pipes on MI300X take as many clocks.
#include "coalescing.h"

enum { QUAD = 4, QUADS = RPL_LANES / QUAD, GROUP_LANES = 16, MERGED_ELEMENT = 4, MERGED_BYTES = 16, PRIVATE_ELEMENT = 4, SLOTS = 256 };

struct group { uint32_t accesses, lookups, is_merged; };

static int is_contiguous(uint64_t lanes, const uint64_t *address, uint32_t width) {
  uint64_t differs = (uint64_t)(lanes != RPL_ALL_LANES);
  for (uint64_t l = 0; l < RPL_LANES; l++) differs |= address[l] ^ (address[0] + l * width);
  return !differs;
}

// ---- lookups ----

static uint32_t distinct_lines(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t shift) {
  uint64_t seen[2 * QUAD];
  uint32_t count = 0;
  RPL_FOR_LANES(lanes, l) {
    for (uint64_t line = address[l] >> shift; line <= (address[l] + width - 1) >> shift; line++) {
      uint32_t k = 0;
      while (k < count && seen[k] != line) k++;
      if (k == count) seen[count++] = line;
    }
  }
  return count;
}


// Lowest and highest address of the active lanes of a quad.
static inline void range_of(uint64_t lanes, const uint64_t *address, uint64_t *low, uint64_t *high) {
  uint64_t a = address[0], b = address[1], c = address[2], d = address[3];
  if (lanes != 15) {
    uint64_t any = address[__builtin_ctzll(lanes)];
    a = lanes & 1 ? a : any;
    b = lanes & 2 ? b : any;
    c = lanes & 4 ? c : any;
    d = lanes & 8 ? d : any;
  }
  uint64_t ab = a < b ? a : b, cd = c < d ? c : d, above_ab = a < b ? b : a, above_cd = c < d ? d : c;
  *low = ab < cd ? ab : cd;
  *high = above_ab < above_cd ? above_cd : above_ab;
}

static inline uint32_t lines_of_quad(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t shift) {
  uint64_t a = address[0] >> shift, b = address[1] >> shift, c = address[2] >> shift, d = address[3] >> shift, crosses = 0;
  for (int l = 0; l < QUAD; l++) crosses |= (address[l] ^ (address[l] + width - 1)) >> shift;
  if (crosses || lanes != 15) return distinct_lines(lanes, address, width, shift);
  return 1 + (uint32_t)(b != a) + (uint32_t)((c != a) & (c != b)) + (uint32_t)((d != a) & (d != b) & (d != c));
}

// Merged quads of a group share the lookups of their lines; other quads have their own.
static inline struct group group_of(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t shift) {
  struct group g = {.is_merged = 1};
  uint64_t merged[QUAD], low, high;
  uint32_t count = 0;
  for (int k = 0; k < QUAD; k++, address += QUAD, lanes >>= QUAD) {
    uint64_t active = lanes & 15;
    if (!active) continue;
    range_of(active, address, &low, &high);
    high += width - 1;
    if (width <= MERGED_ELEMENT && high - low < MERGED_BYTES && low >> shift == high >> shift) {
      uint32_t j = 0;
      while (j < count && merged[j] != low >> shift) j++;
      if (j == count) merged[count++] = low >> shift;
      g.accesses++;
      continue;
    }
    g.is_merged = 0;
    g.accesses += (uint32_t)__builtin_popcountll(active);
    g.lookups += lines_of_quad(active, address, width, shift);
  }
  g.lookups += count;
  return g;
}

static int crosses_lines(const uint64_t *address, uint32_t width, uint32_t shift) {
  uint64_t crosses = 0;
  for (int l = 0; l < RPL_LANES; l++) crosses |= (address[l] ^ (address[l] + width - 1)) >> shift;
  return crosses != 0;
}

// For whole wavefronts whose lanes are each within one line; the loop is written for vector instructions.
static struct rpl_requests requests_of_all(const uint64_t *address, uint32_t width, uint32_t shift) {
  uint64_t lines[QUADS], merged[QUADS], first[QUADS], span = width <= MERGED_ELEMENT ? MERGED_BYTES - width : 0;
  for (int q = 0; q < QUADS; q++) {
    uint64_t a = address[QUAD * q], b = address[QUAD * q + 1], c = address[QUAD * q + 2], d = address[QUAD * q + 3];
    uint64_t ab = a < b ? a : b, cd = c < d ? c : d, above_ab = a < b ? b : a, above_cd = c < d ? d : c;
    uint64_t low = ab < cd ? ab : cd, high = above_ab < above_cd ? above_cd : above_ab;
    merged[q] = (uint64_t)(high - low <= span) & (uint64_t)(low >> shift == high >> shift);
    first[q] = low >> shift;
    a >>= shift; b >>= shift; c >>= shift; d >>= shift;
    lines[q] = 1 + (uint64_t)(b != a) + ((uint64_t)(c != a) & (uint64_t)(c != b)) +
               ((uint64_t)(d != a) & (uint64_t)(d != b) & (uint64_t)(d != c));
  }
  struct rpl_requests r = {0};
  uint64_t quads = 0, lookups = 0;
  for (int q = 0; q < QUADS; q++) {
    quads += merged[q];
    lookups += merged[q] ? 0 : lines[q];
  }
  for (int q = 0; q < QUADS && width <= MERGED_ELEMENT; q += QUAD)  // merged quads of a group share the lookups of their lines
    for (int k = 0; k < QUAD; k++) {
      uint64_t is_new = merged[q + k];
      for (int j = 0; j < k; j++) is_new &= !(merged[q + j] & (uint64_t)(first[q + j] == first[q + k]));
      lookups += is_new;
    }
  if (width > MERGED_ELEMENT) {
    quads = lookups = 0;
    for (int q = 0; q < QUADS; q++) lookups += lines[q];
  }
  r.accesses = (uint32_t)(quads + QUAD * (QUADS - quads));
  r.lookups = (uint32_t)lookups;
  r.is_coalesced = quads == QUADS;
  return r;
}

static struct rpl_requests requests_of_any(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t line_shift) {
  if (lanes == RPL_ALL_LANES && !crosses_lines(address, width, line_shift)) return requests_of_all(address, width, line_shift);
  struct rpl_requests r = {.is_coalesced = lanes != 0};
  for (; lanes; lanes >>= GROUP_LANES, address += GROUP_LANES) {
    struct group g = group_of(lanes & 0xffff, address, width, line_shift);
    r.accesses += g.accesses;
    r.lookups += g.lookups;
    r.is_coalesced &= g.is_merged;
  }
  return r;
}

// Contiguous lanes make the same requests wherever the line is in which they start.
static struct rpl_requests requests_of_contiguous(const uint64_t *address, uint32_t width, uint32_t line_shift) {
  enum { SHORTEST = RPL_LINE_SHIFT - 1, LINE = 1 << RPL_LINE_SHIFT, WIDTHS = 17 };
  static _Thread_local struct rpl_requests known[2][WIDTHS][LINE];  // of a pure function: never stale
  if (line_shift < SHORTEST || line_shift > RPL_LINE_SHIFT || width >= WIDTHS)
    return requests_of_any(RPL_ALL_LANES, address, width, line_shift);
  struct rpl_requests *r = &known[line_shift - SHORTEST][width][address[0] & ((1u << line_shift) - 1)];
  if (!r->accesses) *r = requests_of_any(RPL_ALL_LANES, address, width, line_shift);
  return *r;
}

struct rpl_requests rpl_requests_of(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t line_shift) {
  if (lanes != RPL_ALL_LANES) return requests_of_any(lanes, address, width, line_shift);
  uint64_t stride = address[1] - address[0], differs = 0, line = 1ull << line_shift;
  for (uint64_t l = 1; l < RPL_LANES; l++) differs |= (address[l] - address[l - 1]) ^ stride;
  if (differs) return requests_of_any(lanes, address, width, line_shift);
  if (stride == width) return requests_of_contiguous(address, width, line_shift);
  int is_power = !(width & (width - 1)), is_aligned = is_power && !((address[0] | stride) & (width - 1));  // crosses no line
  if (is_aligned && !stride && width <= MERGED_ELEMENT)
    return (struct rpl_requests){.accesses = QUADS, .lookups = QUADS / QUAD, .is_coalesced = 1};
  if (is_aligned && stride >= line && -stride >= line) return (struct rpl_requests){.accesses = RPL_LANES, .lookups = RPL_LANES};
  return requests_of_any(lanes, address, width, line_shift);
}

// ---- segments ----

static uint32_t distinct(const uint64_t *segment, uint32_t count) {
  uint64_t table[SLOTS];
  uint8_t used[SLOTS] = {0};
  uint32_t found = 0;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t slot = (uint32_t)(segment[k] * 0x9e3779b97f4a7c15ull >> 56);
    while (used[slot] && table[slot] != segment[k]) slot = (slot + 1) % SLOTS;
    found += !used[slot];
    used[slot] = 1;
    table[slot] = segment[k];
  }
  return found;
}

// Returns the number of segments of a whole wavefront whose lanes access ascending segments, or 0.
static uint32_t ascending_segments(uint64_t lanes, const uint64_t *address, uint32_t width) {
  if (lanes != RPL_ALL_LANES || crosses_lines(address, width, RPL_SEGMENT_SHIFT)) return 0;
  uint64_t changes = 0, descends = 0;
  for (int l = 1; l < RPL_LANES; l++) {
    uint64_t before = address[l - 1] >> RPL_SEGMENT_SHIFT, here = address[l] >> RPL_SEGMENT_SHIFT;
    changes += here != before;
    descends |= here < before;
  }
  return descends ? 0 : (uint32_t)changes + 1;
}

uint32_t rpl_segments_of(uint64_t lanes, const uint64_t *address, uint32_t width) {
  if (is_contiguous(lanes, address, width)) {
    uint64_t last = address[0] + RPL_LANES * (uint64_t)width - 1;
    return (uint32_t)((last >> RPL_SEGMENT_SHIFT) - (address[0] >> RPL_SEGMENT_SHIFT)) + 1;
  }
  uint32_t ascending = ascending_segments(lanes, address, width);
  if (ascending) return ascending;
  uint64_t segment[2 * RPL_LANES];
  uint32_t count = 0, is_ordered = 1;
  RPL_FOR_LANES(lanes, l) {
    uint64_t first = address[l] >> RPL_SEGMENT_SHIFT, last = (address[l] + width - 1) >> RPL_SEGMENT_SHIFT;
    for (uint64_t s = first; s <= last; s++) {
      if (count && segment[count - 1] == s) continue;
      is_ordered &= !count || segment[count - 1] < s;
      segment[count++] = s;
    }
  }
  return is_ordered ? count : distinct(segment, count);
}

// ---- counters ----

static int count(struct rpl_machine *m, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  struct rpl_counters *c = &m->counters;
  struct rpl_requests r = rpl_requests_of(lanes, address, width, RPL_LINE_SHIFT - (uint32_t)m->has_half_lines);
  c->l1_lookups += r.lookups;
  switch (access) {
    case RPL_LOAD: c->read_accesses += r.accesses; break;
    case RPL_STORE:
      c->write_accesses += r.accesses;
      c->write_segments += rpl_segments_of(lanes, address, width);
      break;
    default:
      c->atomic_accesses += r.accesses;
      c->atomic_segments += rpl_segments_of(lanes, address, width);
  }
  return (int)r.is_coalesced;
}

void rpl_count_requests(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  struct rpl_counters *c = &w->machine->counters;
  c->coalesced_waves += (uint64_t)count(w->machine, access, lanes, address, width);
}

void rpl_count_private(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *offset, uint32_t width) {
  struct rpl_counters *c = &w->machine->counters;
  int is_coalesced = width <= PRIVATE_ELEMENT;
  uint32_t element = width < PRIVATE_ELEMENT ? width : PRIVATE_ELEMENT;
  for (uint32_t first = 0; first < width; first += element) {
    uint64_t address[RPL_LANES] = {0};
    RPL_FOR_LANES(lanes, l) {
      uint64_t at = offset[l] + first;
      address[l] = (at / PRIVATE_ELEMENT * RPL_LANES + l) * PRIVATE_ELEMENT + at % PRIVATE_ELEMENT;
    }
    is_coalesced &= count(w->machine, access, lanes, address, element);
  }
  c->coalesced_waves += (uint64_t)is_coalesced;
}
