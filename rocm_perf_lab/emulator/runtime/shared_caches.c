// Workgroups go to the XCDs in turn and advance at the pace of their memory instructions. Each accesses its L1, the L2 of
// its XCD and then the MALL. Caches are scaled to the sample of lines.
#include "shared_caches.h"

#include "machine.h"
#include "sampled_cache.h"

enum { LEAST_L1_LINES = 64, FILLS_OF_A_PACE = 32 };
enum { LINE_BYTES = RPL_CACHED_LINE_BYTES, SECTOR_BYTES = 32, REQUEST_BYTES = 64, ALL_SECTORS = 15, SCALAR_LOADS = 3 };

// Vector L1 of a compute unit. A sample of few lines is too small for LRU: the lines that were fetched since the last use of a line
// follow from the pace of fetching instead, and L1 still holds the line if they are fewer than it has.
struct vector_l1 {
  struct cache lines;   // `filled` is the time of the last use
  uint32_t fills;       // since `since`
  uint32_t since;
  double pace;          // fetched lines of the sample per unit of time; 0: not known yet
};

// Workgroup in a slot of an XCD: time of its start, its next record and the end of its records.
struct active { uint64_t start, next, end, group; };

enum { PLACE_BITS = 24 };  // of a heap entry: time << PLACE_BITS | place of the workgroup in `active`

struct model {
  const struct rpl_shared_run *run;
  const struct rpl_shared_parameters *p;
  struct vector_l1 *l1;         // [xcds * units_per_xcd]
  struct cache *l2, mall;       // [xcds]
  struct active *active;        // [units_per_xcd * resident][xcds]
  uint64_t *heap, heaped;
  uint64_t *next_group;         // [xcds]: first workgroup that has not started
};

// ---- channels ----

static uint32_t channel_of(const struct rpl_shared_parameters *p, uint64_t line, uint32_t bits) {
  uint64_t address = line << RPL_CACHED_LINE_SHIFT;
  uint32_t channel = 0;
  for (uint32_t k = 0; k < bits; k++) channel |= (uint32_t)__builtin_parityll(address & p->channel_masks[k]) << k;
  return channel;
}

// ---- memory side ----

static struct rpl_memory_channel *memory_channel(struct model *m, uint64_t line) {
  return &m->run->memory_channels[channel_of(m->p, line, m->p->memory_channel_bits)];
}

static struct entry *allocate_mall(struct model *m, uint64_t line, uint32_t now) {
  struct cache *c = &m->mall;
  int64_t at = cache_victim(c, line, 1);
  uint32_t bytes = c->tags[at] ? SECTOR_BYTES * (uint32_t)__builtin_popcount(c->entries[at].dirty) : 0;
  if (bytes) {
    m->run->totals->dram_write_bytes += bytes;
    memory_channel(m, c->tags[at] - 1)->write_bytes += bytes;
  }
  cache_fill(c, at, line, now);
  return &c->entries[at];
}

// Returns what serves a read of `bytes`.
static int read_memory(struct model *m, uint64_t line, uint32_t bytes, uint32_t now) {
  m->run->totals->mall_read_bytes += bytes;
  if (m->p->mall_lines) {
    int64_t at = cache_find(&m->mall, line);
    if (at >= 0 && m->mall.entries[at].is_complete) return RPL_SERVED_MALL;
    struct entry *e = at >= 0 ? &m->mall.entries[at] : allocate_mall(m, line, now);
    e->is_complete = 1;
  }
  m->run->totals->dram_read_bytes += bytes;
  memory_channel(m, line)->read_bytes += bytes;
  return RPL_SERVED_HBM;
}

// Writes the dirty sectors of a line; `is_partial`: not all bytes of them.
static void write_memory(struct model *m, uint64_t line, uint32_t sectors, int is_partial, uint32_t now) {
  uint32_t bytes = SECTOR_BYTES * (uint32_t)__builtin_popcount(sectors);
  struct rpl_shared_totals *t = m->run->totals;
  t->mall_write_bytes += bytes;
  if (is_partial) t->partial_write_sectors += (uint32_t)__builtin_popcount(sectors);
  struct rpl_memory_channel *channel = memory_channel(m, line);
  channel->partial_writes += (uint32_t)is_partial;
  if (!m->p->mall_lines) {
    t->dram_write_bytes += bytes;
    channel->write_bytes += bytes;
    return;
  }
  int64_t at = cache_find(&m->mall, line);
  struct entry *e = at >= 0 ? &m->mall.entries[at] : allocate_mall(m, line, now);
  if (at < 0 && is_partial) {  // merged with the bytes in memory
    t->dram_read_bytes += bytes;
    channel->read_bytes += bytes;
  }
  e->dirty |= (uint8_t)sectors;
  if (e->dirty == ALL_SECTORS) e->is_complete = 1;
}

// ---- L2 ----

static struct rpl_channel_counts *channel_counts(struct model *m, uint32_t xcd, uint64_t line) {
  uint32_t bits = m->p->l2_channel_bits;
  return &m->run->channels[(xcd << bits) + channel_of(m->p, line, bits)];
}

static uint32_t halves_of(uint32_t sectors) { return (uint32_t)!!(sectors & 3) + (uint32_t)!!(sectors & 12); }

static void write_back(struct model *m, uint32_t xcd, int64_t at, uint32_t now) {
  struct entry *e = &m->l2[xcd].entries[at];
  uint64_t line = m->l2[xcd].tags[at] - 1;
  if (!m->l2[xcd].tags[at] || !e->dirty) return;
  int is_partial = e->written * 4u < SECTOR_BYTES * (uint32_t)__builtin_popcount(e->dirty);
  struct rpl_channel_counts *n = channel_counts(m, xcd, line);
  for (uint32_t half = 0; half < 2; half++) {
    uint32_t sectors = e->dirty >> 2 * half & 3;
    if (!sectors) continue;
    n->memory_writes++;
    n->memory_partial_writes += sectors != 3 || is_partial;
  }
  write_memory(m, line, e->dirty, is_partial && !e->is_complete, now);
  e->dirty = e->written = 0;
}

static struct entry *allocate_l2(struct model *m, uint32_t xcd, uint64_t line, uint32_t now) {
  int64_t at = cache_victim(&m->l2[xcd], line, 0);
  write_back(m, xcd, at, now);
  cache_fill(&m->l2[xcd], at, line, now);
  return &m->l2[xcd].entries[at];
}

static struct entry *find_l2(struct model *m, uint32_t xcd, uint64_t line) {
  int64_t at = cache_find(&m->l2[xcd], line);
  return at >= 0 ? &m->l2[xcd].entries[at] : NULL;
}

static int load(struct model *m, uint32_t xcd, uint64_t line, int is_scalar, uint32_t now) {
  struct rpl_channel_counts *n = channel_counts(m, xcd, line);
  struct entry *e = find_l2(m, xcd, line);
  *(is_scalar ? &n->scalar_reads : &n->reads) += 1;
  if (e && e->is_complete) {
    n->hits++;
    return e->filled + m->p->pending_time >= now ? RPL_SERVED_L2_PENDING : RPL_SERVED_L2;
  }
  n->misses++;
  *(is_scalar ? &n->memory_scalar_reads : &n->memory_reads) += 1;
  int served = read_memory(m, line, is_scalar ? REQUEST_BYTES : LINE_BYTES, now);
  if (!e) e = allocate_l2(m, xcd, line, now);
  e->filled = now;
  e->is_complete = 1;
  return served;
}

// The first request for a line that is not in L2 misses; the bytes stay in L2 until the line is replaced.
static int store(struct model *m, uint32_t xcd, uint64_t line, uint32_t sectors, uint32_t dwords, uint32_t now) {
  struct rpl_channel_counts *n = channel_counts(m, xcd, line);
  struct entry *e = find_l2(m, xcd, line);
  uint32_t requests = halves_of(sectors);
  n->writes += requests;
  n->hits += e ? requests : requests - 1;
  n->misses += !e;
  int served = e ? RPL_SERVED_L2 : RPL_SERVED_MALL;
  if (!e) e = allocate_l2(m, xcd, line, now);
  e->dirty |= (uint8_t)sectors;
  e->written = (uint8_t)(e->written + dwords > LINE_BYTES / 4 ? LINE_BYTES / 4 : e->written + dwords);
  if (e->written == LINE_BYTES / 4 && e->dirty == ALL_SECTORS) e->is_complete = 1;
  return served;
}

static int atomic(struct model *m, uint32_t xcd, uint64_t line, uint32_t sectors, uint32_t dwords, uint32_t now) {
  struct rpl_channel_counts *n = channel_counts(m, xcd, line);
  uint32_t requests = halves_of(sectors);
  n->atomics += requests;
  struct entry *e = find_l2(m, xcd, line);
  if (m->p->atomics_in_l2) {
    int hit = e && e->is_complete, served = hit ? RPL_SERVED_L2 : read_memory(m, line, LINE_BYTES, now);
    n->hits += hit ? requests : requests - 1;
    n->misses += !hit;
    n->memory_reads += !hit;
    if (!e) e = allocate_l2(m, xcd, line, now);
    e->is_complete = 1;
    e->dirty |= (uint8_t)sectors;
    e->written = (uint8_t)(e->written + dwords > LINE_BYTES / 4 ? LINE_BYTES / 4 : e->written + dwords);
    return served;
  }
  if (e) {
    int64_t at = e - m->l2[xcd].entries;
    write_back(m, xcd, at, now);
    m->l2[xcd].tags[at] = 0;
  }
  n->misses += requests;
  n->memory_atomics += requests;
  int served = read_memory(m, line, REQUEST_BYTES * requests, now);
  int64_t kept = m->p->mall_lines ? cache_find(&m->mall, line) : NOT_FOUND;
  if (kept >= 0) m->mall.entries[kept].dirty |= (uint8_t)sectors;
  return served;
}

// ---- L1 ----

static int l1_holds(const struct model *m, const struct vector_l1 *l1, int64_t at, uint32_t now) {
  if (at < 0) return 0;
  if (m->p->l1_lines / m->p->sampling >= LEAST_L1_LINES) return 1;
  double pace = l1->pace > 0 ? l1->pace : (double)l1->fills / (now - l1->since + 1);
  return pace * m->p->sampling * (now - l1->lines.entries[at].filled) < m->p->l1_lines;
}

static void l1_fetch(struct vector_l1 *l1, int64_t at, uint64_t line, uint32_t now) {
  cache_fill(&l1->lines, at >= 0 ? at : cache_victim(&l1->lines, line, 0), line, now);
  if (++l1->fills < FILLS_OF_A_PACE) return;
  l1->pace = (double)l1->fills / greater(now - l1->since, 1);
  l1->fills = 0;
  l1->since = now;
}

static int l1_open(const struct model *m, struct vector_l1 *l1) {
  uint32_t lines = greater(m->p->l1_lines / m->p->sampling, LEAST_L1_LINES);
  return cache_open(&l1->lines, lines * m->p->sampling, m->p->l1_ways, m->p->sampling);
}

static void l1_clear(struct vector_l1 *l1) {
  cache_clear(&l1->lines);
  l1->fills = l1->since = 0;
  l1->pace = 0;
}

// ---- workgroups in time ----

static uint64_t line_of(const struct model *m, uint64_t place) {
  uint64_t allocation = place >> RPL_PLACE_ALLOCATION & 0x7fff;
  return (m->run->allocation_base[allocation] >> RPL_CACHED_LINE_SHIFT) + (uint32_t)place;
}

static void replay(struct model *m, uint64_t group, uint32_t slot, uint64_t time, const struct rpl_line_access *r) {
  const struct rpl_shared_parameters *p = m->p;
  uint32_t xcd = (uint32_t)(group % p->xcds), unit = xcd * p->units_per_xcd + slot % p->units_per_xcd;
  uint32_t sectors = (uint32_t)(r->place >> RPL_PLACE_SECTORS) & ALL_SECTORS, dwords = (uint32_t)(r->place >> RPL_PLACE_DWORDS & 31) + 1;
  uint32_t access = (uint32_t)(r->place >> RPL_PLACE_KIND) & 3, is_scalar = (uint32_t)(r->place >> RPL_PLACE_SCALAR) & 1;
  uint32_t kind = access == RPL_LOAD && is_scalar ? SCALAR_LOADS : access, now = (uint32_t)time;
  uint64_t line = line_of(m, r->place);
  // Scalar loads have a cache of their own, which is not modelled; the few lines of a vector cache stand for it.
  struct vector_l1 *l1 = &m->l1[unit];
  int64_t in_l1 = cache_find(&l1->lines, line);
  int served = RPL_SERVED_L1;
  if (access == RPL_LOAD && l1_holds(m, l1, in_l1, now)) {
    l1->lines.entries[in_l1].filled = now;
  } else if (access == RPL_LOAD) {
    served = load(m, xcd, line, (int)is_scalar, now);
    l1_fetch(l1, in_l1, line, now);
  } else {
    if (in_l1 >= 0) l1->lines.tags[in_l1] = 0;
    served = access == RPL_STORE ? store(m, xcd, line, sectors, dwords, now) : atomic(m, xcd, line, sectors, dwords, now);
  }
  m->run->served[(group * RPL_REQUEST_KINDS + kind) * RPL_SERVICES + (uint32_t)served]++;
}

static void sift_down(struct model *m) {
  uint64_t moved = m->heap[0], at = 0;
  for (uint64_t child; (child = 2 * at + 1) < m->heaped; at = child) {
    if (child + 1 < m->heaped && m->heap[child + 1] < m->heap[child]) child++;
    if (m->heap[child] >= moved) break;
    m->heap[at] = m->heap[child];
  }
  m->heap[at] = moved;
}

static void push(struct model *m, uint64_t added) {
  uint64_t at = m->heaped++;
  while (at && added < m->heap[(at - 1) / 2]) {
    m->heap[at] = m->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  m->heap[at] = added;
}

static uint64_t entry_of(const struct model *m, uint64_t place) {
  const struct active *a = &m->active[place];
  return (a->start + m->run->records[a->next].time) << PLACE_BITS | place;
}

// Starts the next workgroup of the XCD in a place that is free from `now` on. Returns 0 if none is left.
static int start(struct model *m, uint64_t place, uint64_t now) {
  const struct rpl_shared_run *run = m->run;
  uint32_t xcd = (uint32_t)(place % m->p->xcds);
  uint64_t group = m->next_group[xcd];
  while (group < run->workgroups && run->first_record[group] == run->first_record[group + 1]) {
    now += run->memory_instructions[group];  // nothing of it is in the sample
    group += m->p->xcds;
  }
  m->next_group[xcd] = group + m->p->xcds;
  if (group >= run->workgroups) return 0;
  m->active[place] = (struct active){now, run->first_record[group], run->first_record[group + 1], group};
  return 1;
}

static void step(struct model *m) {
  uint64_t place = m->heap[0] & ((1u << PLACE_BITS) - 1), time = m->heap[0] >> PLACE_BITS;
  struct active *a = &m->active[place];
  replay(m, a->group, (uint32_t)(place / m->p->xcds), time, &m->run->records[a->next]);
  if (++a->next < a->end || start(m, place, a->start + m->run->memory_instructions[a->group])) m->heap[0] = entry_of(m, place);
  else m->heap[0] = m->heap[--m->heaped];
  if (m->heaped) sift_down(m);
}

static void forget_outputs(struct model *m) {
  const struct rpl_shared_run *run = m->run;
  memset(run->served, 0, run->workgroups * RPL_REQUEST_KINDS * RPL_SERVICES * sizeof *run->served);
  memset(run->channels, 0, ((size_t)m->p->xcds << m->p->l2_channel_bits) * sizeof *run->channels);
  memset(run->memory_channels, 0, ((size_t)1 << m->p->memory_channel_bits) * sizeof *run->memory_channels);
  memset(run->totals, 0, sizeof *run->totals);
}

// The end of a kernel writes L2 back and drops its lines.
static void end_launch(struct model *m) {
  uint64_t before = m->run->totals->mall_write_bytes;
  for (uint32_t xcd = 0; xcd < m->p->xcds; xcd++) {
    for (int64_t k = 0; k < (int64_t)m->l2[xcd].sets * m->l2[xcd].ways; k++) write_back(m, xcd, k, 0);
    cache_clear(&m->l2[xcd]);
  }
  m->run->totals->dirty_bytes_at_end = m->run->totals->mall_write_bytes - before;
  for (uint32_t k = 0; k < m->p->xcds * m->p->units_per_xcd; k++) l1_clear(&m->l1[k]);
}

static void launch(struct model *m) {
  forget_outputs(m);
  m->heaped = 0;
  for (uint32_t xcd = 0; xcd < m->p->xcds; xcd++) m->next_group[xcd] = xcd;
  for (uint64_t place = 0; place < (uint64_t)m->p->units_per_xcd * m->p->resident * m->p->xcds; place++)
    if (start(m, place, 0)) push(m, entry_of(m, place));
  while (m->heaped) step(m);
  end_launch(m);
}

// Leaves the MALL as an equal launch does. If it holds all lines, the order of the accesses does not matter.
static void warm_up(struct model *m) {
  uint64_t room = (uint64_t)m->mall.sets * m->mall.ways * 3 / 4, count = m->run->first_record[m->run->workgroups];
  for (uint64_t k = 0; k < count && room; k++) {
    uint64_t line = line_of(m, m->run->records[k].place);
    if (cache_find(&m->mall, line) >= 0) continue;
    int64_t at = cache_victim(&m->mall, line, 1);
    cache_fill(&m->mall, at, line, 0);
    m->mall.entries[at].is_complete = 1;
    room--;
  }
  if (room) return;
  cache_clear(&m->mall);
  launch(m);
}

int rpl_shared_caches(const struct rpl_shared_run *run) {
  const struct rpl_shared_parameters *p = run->parameters;
  struct model m = {.run = run, .p = p};
  uint32_t units = p->xcds * p->units_per_xcd;
  m.l1 = calloc(units, sizeof *m.l1);
  m.l2 = calloc(p->xcds, sizeof *m.l2);
  m.heap = calloc((size_t)units * p->resident, sizeof *m.heap);
  m.active = calloc((size_t)units * p->resident, sizeof *m.active);
  m.next_group = calloc(p->xcds, sizeof *m.next_group);
  int ok = m.l1 && m.l2 && m.heap && m.active && m.next_group && cache_open(&m.mall, p->mall_lines, p->mall_ways, p->sampling);
  for (uint32_t k = 0; ok && k < units; k++) ok = l1_open(&m, &m.l1[k]);
  for (uint32_t k = 0; ok && k < p->xcds; k++) ok = cache_open(&m.l2[k], p->l2_lines, p->l2_ways, p->sampling);
  if (ok && run->is_warm) warm_up(&m);
  if (ok) launch(&m);
  for (uint32_t k = 0; m.l1 && k < units; k++) cache_close(&m.l1[k].lines);
  for (uint32_t k = 0; m.l2 && k < p->xcds; k++) cache_close(&m.l2[k]);
  cache_close(&m.mall);
  free(m.l1);
  free(m.l2);
  free(m.heap);
  free(m.active);
  free(m.next_group);
  return !ok;
}

void rpl_shared_layout(uint64_t *sizes) {
  sizes[0] = sizeof(struct rpl_line_access);
  sizes[1] = sizeof(struct rpl_footprint);
  sizes[2] = sizeof(struct rpl_shared_parameters);
  sizes[3] = sizeof(struct rpl_channel_counts);
  sizes[4] = sizeof(struct rpl_memory_channel);
  sizes[5] = sizeof(struct rpl_shared_totals);
  sizes[6] = sizeof(struct rpl_shared_run);
}
