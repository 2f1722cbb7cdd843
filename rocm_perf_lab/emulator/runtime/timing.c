// In-order wavefronts on the SIMDs of one compute unit, with its issue ports, LDS, vector L1, scalar and instruction caches, and
// its share of L2, MALL and HBM. The wavefront that can issue first does; one that finds its port or queue
// occupied tries again when that is free. Completion times of memory are known when an instruction is issued, so that no event
// queue is needed.
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wave.h"

enum { MAX_PENDING = 64, WAYS = 16, ISSUED = 64, VECTOR_QUEUE = 256, MAX_OUTSTANDING = 1024, PORTS = 2, SLOT_CYCLES = 4,
       FETCH_SHIFT = 5, CODE_LINE_SHIFT = 6 };

// ---- caches ----

struct cache { uint64_t *tags, *used; double *filled; uint32_t sets, ways; int hashed; uint64_t clock; };

static int cache_open(struct cache *c, uint32_t lines, uint32_t ways, int hashed) {
  c->ways = lines < ways ? (lines ? lines : 1) : ways;
  c->hashed = hashed;
  c->sets = lines / c->ways ? lines / c->ways : 1;
  size_t entries = (size_t)c->sets * c->ways;
  c->tags = calloc(entries, sizeof *c->tags);
  c->used = calloc(entries, sizeof *c->used);
  c->filled = calloc(entries, sizeof *c->filled);
  c->clock = 0;
  return c->tags && c->used && c->filled;
}

static void cache_close(struct cache *c) { free(c->tags); free(c->used); free(c->filled); }

static size_t set_of(const struct cache *c, uint64_t line) {
  if (!c->hashed) return line % c->sets * c->ways;
  uint64_t hash = line * 0x9E3779B97F4A7C15ull;  // only its upper bits spread neighbouring lines evenly
  return (size_t)((unsigned __int128)hash * c->sets >> 64) * c->ways;
}

// Returns the entry of a line; sets *hit. A line that misses replaces the least recently used one of its set.
static size_t cache_lookup(struct cache *c, uint64_t line, int *hit) {
  size_t base = set_of(c, line), oldest = base;
  for (size_t i = base; i < base + c->ways; i++) {
    if (c->used[i] && c->tags[i] == line) {
      c->used[i] = ++c->clock;
      *hit = 1;
      return i;
    }
    if (c->used[i] < c->used[oldest]) oldest = i;
  }
  c->tags[oldest] = line;
  c->used[oldest] = ++c->clock;
  *hit = 0;
  return oldest;
}

static void cache_drop(struct cache *c, uint64_t line) {
  size_t base = set_of(c, line);
  for (size_t i = base; i < base + c->ways; i++)
    if (c->used[i] && c->tags[i] == line) c->used[i] = 0;
}

// ---- state ----

struct pending { double done[MAX_PENDING]; uint32_t count; };

struct wave_state {
  const uint64_t *words; uint64_t next, count;
  uint32_t inst, block_left, trace;
  double ready, started, attempt, issued;
  double try_at;                            // next attempt to issue; `ready` until the instruction is fetched
  int is_prepared, accesses_memory;         // fetched, and its operands are there
  double vector_issued, scalar_result, block_entered, lds_next, last_store;
  uint32_t previous_unit, begun;
  uint64_t fetch_block, code_line;
  double recent[ISSUED]; uint64_t issues;   // times of issue of the latest instructions
  struct pending vector, scalar;
  uint32_t group_slot, simd, port, active, at_barrier;
  uint64_t age, salt;
  struct rpl_traced_wave *traced;           // NULL: not traced
};

struct group_state { uint32_t live, waiting, workgroup; double barrier; };

struct simd { double port[PORTS], constant, matrix, scalar; };

struct unit {
  const struct rpl_cu_run *run;
  struct wave_state *waves; struct group_state *groups;
  struct simd *simds;
  double lds_free, address_free, l2_port_free, l2_free, mall_free, dram_free, next_launch, code_ready, scalar_ready;
  double vector_starts[VECTOR_QUEUE]; uint64_t vector_count;
  double outstanding[MAX_OUTSTANDING]; uint64_t missed;
  struct cache l1, l2, mall, scalar, code, tlb;
  uint32_t next_workgroup;
  double translations_ready;
  int has_fetched, has_loaded_scalars, has_translated;
};

static double later(double a, double b) { return a > b ? a : b; }

// Transfers data through a pipe: starts when it is free, ends after bytes / rate. A pipe that was idle accepts `ahead` clocks of work
// at once.
static double transfer_ahead(double *free_at, double start, double bytes, double rate, double ahead) {
  *free_at = later(*free_at, start - ahead) + bytes / rate;
  return *free_at;
}

static double transfer(double *free_at, double start, double bytes, double rate) {
  return transfer_ahead(free_at, start, bytes, rate, 0);
}

static void pend(struct pending *p, double done) {
  if (p->count == MAX_PENDING) { memmove(p->done, p->done + 1, sizeof p->done - sizeof p->done[0]); p->count--; }
  if (p->count && p->done[p->count - 1] > done) done = p->done[p->count - 1];  // returned in order
  p->done[p->count++] = done;
}

// Returns the time at which at most `left` are outstanding.
static double drained(struct pending *p, int left, double now) {
  if (left < 0 || (uint32_t)left >= p->count) return now;
  uint32_t over = p->count - (uint32_t)left;
  double done = p->done[over - 1];
  memmove(p->done, p->done + over, (p->count - over) * sizeof p->done[0]);
  p->count -= over;
  return later(now, done);
}

// ---- words of a trace ----

static uint64_t skip_record(struct wave_state *w) {
  uint64_t count = w->words[w->next] >> 32 & 0xffffff;
  w->next += 1 + count;
  return count;
}

static int tag_is(const struct wave_state *w, uint64_t tag) { return w->next < w->count && w->words[w->next] >> 56 == tag; }

// Returns whether the next word is the record of this instruction; without memory accesses it has no record.
static int record_is(const struct wave_state *w, uint64_t tag, uint32_t inst) {
  return tag_is(w, tag) && (uint32_t)w->words[w->next] == inst;
}

// ---- memory behind the vector L1 ----

// Part of one that is equal for all accesses of a line.
static double fraction_of(uint64_t line) { return (double)(line * 0x9E3779B97F4A7C15ull >> 11) / (double)(1ull << 53); }

// Returns when a line that the vector L1 lacks arrives from the level that holds it.
static double fetch_line(struct unit *u, struct wave_state *w, double start, uint64_t line, int shared) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  const struct rpl_line_sources *sources = u->run->sources;
  struct rpl_cu_counters *n = u->run->counters;
  int in_l2, in_mall = 0, is_pending = 0;
  n->l2_reads++;
  cache_lookup(&u->l2, line, &in_l2);  // with sources: lines that this CU accessed recently
  if (sources && !in_l2) {
    double part = fraction_of(line);
    in_l2 = part < sources[w->trace].load_l2;
    part -= sources[w->trace].load_l2;
    is_pending = !in_l2 && part < sources[w->trace].load_pending;
    in_mall = part < sources[w->trace].load_pending + sources[w->trace].load_mall;
  } else if (!in_l2) {
    in_l2 = shared;
    if (!in_l2) cache_lookup(&u->mall, line, &in_mall);
  }
  double port = transfer(&u->l2_port_free, start, 128, cu->l2_port_bytes);
  double at = later(port, transfer_ahead(&u->l2_free, start, 128, cu->l2_bytes, cu->l2_burst_cycles));
  if (in_l2) {
    n->l2_hits++;
    return at + cu->l2_latency;
  }
  if (cu->outstanding_lines && u->missed >= cu->outstanding_lines) {
    start = later(start, u->outstanding[u->missed % cu->outstanding_lines]);
    at = later(at, start);
  }
  if (is_pending) {
    n->l2_hits++;
    at += cu->mall_latency;
  } else {
    n->l2_misses++;
    n->dram_reads++;
    at = later(at, transfer(&u->mall_free, start, 128, cu->mall_bytes));  // HBM is behind the memory-side cache
    if (in_mall) at += cu->mall_latency;
    else at = later(at, transfer(&u->dram_free, start, 128, cu->dram_bytes)) + cu->dram_latency;
  }
  if (cu->outstanding_lines) u->outstanding[u->missed++ % cu->outstanding_lines] = at;
  return at;
}

// Returns the way for a line that the vector L1 lacks, and when it is free: a way whose line is in flight is not replaced.
static size_t free_way(const struct cache *c, uint64_t line, double *start) {
  size_t base = set_of(c, line), oldest = c->sets * c->ways, soonest = base;
  for (size_t i = base; i < base + c->ways; i++) {
    if (c->filled[i] < c->filled[soonest]) soonest = i;
    if (c->used[i] && c->filled[i] > *start) continue;
    if (oldest == c->sets * c->ways || c->used[i] < c->used[oldest]) oldest = i;
  }
  if (oldest < c->sets * c->ways) return oldest;
  *start = later(*start, c->filled[soonest]);
  return soonest;
}

// Moves *start to the time at which the tags accept the line; returns the time of its data.
static double load_line(struct unit *u, struct wave_state *w, double *start, uint64_t line, int shared, int bypasses) {
  struct rpl_cu_counters *n = u->run->counters;
  struct cache *c = &u->l1;
  size_t base = set_of(c, line), entry = base;
  while (entry < base + c->ways && !(c->used[entry] && c->tags[entry] == line)) entry++;
  if (entry < base + c->ways && !bypasses) {
    n->l1_hits++;
    c->used[entry] = ++c->clock;
    return later(*start + u->run->cu->l1_latency, c->filled[entry]);
  }
  if (entry == base + c->ways) entry = free_way(c, line, start);
  c->tags[entry] = line;
  c->used[entry] = ++c->clock;
  c->filled[entry] = fetch_line(u, w, *start, line, shared);
  return c->filled[entry];
}

static uint32_t popcount4(uint64_t bits) { return (uint32_t)__builtin_popcountll(bits & 15); }

// Writes through to L2 in requests of 64 bytes. The vector L1 does not allocate a line on a write.
static double store_line(struct unit *u, struct wave_state *w, double start, uint64_t word) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  const struct rpl_line_sources *sources = u->run->sources;
  struct rpl_cu_counters *n = u->run->counters;
  uint64_t line = word >> RPL_LINE_SHIFT, sectors = word >> RPL_LINE_SECTOR_SHIFT & 15;
  uint32_t requests = (sectors & 3 ? 1 : 0) + (sectors & 12 ? 1 : 0);
  int in_l2, in_mall = 0;
  cache_drop(&u->l1, line);
  n->l2_writes += requests;
  cache_lookup(&u->l2, line, &in_l2);
  if (sources) {
    double part = fraction_of(line) - sources[w->trace].store_l2;
    in_l2 = part < 0;
    in_mall = part < sources[w->trace].store_mall;
  }
  if (in_l2) n->l2_hits += requests;
  else n->l2_misses += requests;
  // A request occupies its channel like the read of a line.
  double at = later(transfer(&u->l2_port_free, start, 64.0 * requests, cu->l2_port_bytes),
                    transfer_ahead(&u->l2_free, start, 128.0 * requests, cu->l2_bytes, cu->l2_burst_cycles));
  if (!in_l2) {  // takes the place of a dirty line, which is written back in whole sectors
    n->dram_writes += requests;
    double bytes = 32.0 * popcount4(sectors);
    at = later(at, transfer(&u->mall_free, start, bytes, cu->mall_write_bytes));
    if (!in_mall) at = later(at, transfer(&u->dram_free, start, bytes, cu->dram_write_bytes));
  }
  return at + cu->store_latency;
}

// An atomic on a line that L2 lacks reads the line and writes it back.
static double atomic_line(struct unit *u, const struct wave_state *w, double start, uint64_t line, int returns) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  const struct rpl_line_sources *sources = u->run->sources;
  struct rpl_cu_counters *n = u->run->counters;
  if (returns) n->l2_atomics_returning++;
  else n->l2_atomics++;
  double at = transfer(&u->l2_port_free, start, 64, cu->l2_port_bytes);
  if (sources) {
    double part = fraction_of(line) - sources[w->trace].atomic_l2;
    if (part >= sources[w->trace].atomic_mall) {
      transfer(&u->dram_free, start, 128, cu->dram_bytes);
      at = later(at, transfer(&u->dram_free, start, 128, cu->dram_write_bytes));
    } else if (part >= 0) {
      at = later(at, transfer(&u->mall_free, start, 128, cu->mall_bytes));
    }
  }
  return at + cu->atomic_latency;
}

// A translation miss holds up the instructions behind it.
static double translated(struct unit *u, double start, uint64_t address) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  int hit;
  if (!cu->tlb_entries) return start;
  n->tlb_requests++;
  cache_lookup(&u->tlb, address >> cu->tlb_page_shift, &hit);
  if (hit) n->tlb_hits++;
  else n->tlb_misses++;
  if (hit) return start;
  if (!u->has_translated) {  // the TLB of the XCD is cold too
    u->has_translated = 1;
    u->translations_ready = start + cu->tlb_cold_cycles;
  }
  return later(start + cu->tlb_miss_cycles, u->translations_ready);
}

// Executes the record of one vector memory instruction that leaves its queue at `start`; returns the time of its last data.
static double vector_memory(struct unit *u, struct wave_state *w, double start, const struct rpl_timed_instruction *t) {
  struct rpl_cu_counters *n = u->run->counters;
  uint64_t words = w->words[w->next++] >> 32 & 0xffffff, detail = 0;
  if (words && w->next < w->count) {
    detail = w->words[w->next++];
    words--;
  }
  uint64_t cycles = detail & 0xffff, last_page = ~0ull;
  double busy = later((double)cycles, t->unit == RPL_UNIT_STORE ? u->run->cu->store_cycles : SLOT_CYCLES), from = start, done = start + busy + u->run->cu->l1_latency;
  n->l1_lookups += (double)(detail >> 32 & 0xffff);
  double pace = words ? busy / (double)words : 0;
  for (uint64_t i = 0; i < words && w->next < w->count; i++, w->next++) {
    uint64_t word = w->words[w->next], shared = word & RPL_LINE_SHARED, page = word >> u->run->cu->tlb_page_shift;
    if (page != last_page) from = translated(u, from, word);
    if (!shared) word ^= w->salt;
    last_page = page;
    double at = from + pace * (double)(i + 1);
    if (t->unit == RPL_UNIT_STORE) done = later(done, store_line(u, w, at, word));
    else if (t->unit == RPL_UNIT_ATOMIC) done = later(done, atomic_line(u, w, at, word >> RPL_LINE_SHIFT, !!(t->flags & RPL_F_RETURNS)));
    else {
      double accepted_at = at;
      done = later(done, load_line(u, w, &accepted_at, word >> RPL_LINE_SHIFT, (int)shared, !!(t->flags & RPL_F_BYPASSES_L1)));
      from += accepted_at - at;
      n->l1_wait_cycles += accepted_at - at;
    }
  }
  u->address_free = from + busy;
  n->address_busy_cycles += busy;
  n->memory_instructions++;
  return done;
}

// Returns the earliest time at which the queue in front of the vector L1 accepts one more instruction.
static double vector_queue_free(const struct unit *u) {
  uint32_t depth = u->run->cu->vector_queue;
  return depth && u->vector_count >= depth ? u->vector_starts[(u->vector_count - depth) % VECTOR_QUEUE] : 0;
}

static double scalar_load(struct unit *u, struct wave_state *w, double now) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  uint64_t lines = w->words[w->next++] >> 32 & 0xffffff;
  double done = now + cu->scalar_cached_latency;
  for (uint64_t i = 0; i < lines && w->next < w->count; i++, w->next++) {
    int hit;
    uint64_t word = w->words[w->next] & ~63ull;
    size_t entry = cache_lookup(&u->scalar, word >> CODE_LINE_SHIFT, &hit);
    n->scalar_requests++;
    if (hit) {
      n->scalar_hits++;
    } else {
      n->scalar_misses++;
      u->scalar.filled[entry] = now + (u->has_loaded_scalars ? cu->scalar_latency : cu->scalar_cold_latency);
      u->has_loaded_scalars = u->has_loaded_scalars || now > u->scalar_ready;
      if (u->scalar_ready == 0) u->scalar_ready = u->scalar.filled[entry];
    }
    done = later(done, u->scalar.filled[entry]);
  }
  return done;
}

// ---- trace of single wavefronts ----

static struct rpl_traced_wave *traced_wave(const struct rpl_cu_run *r, uint32_t workgroup, uint32_t slot, uint32_t wave, double now) {
  struct rpl_thread_trace *trace = r->thread_trace;
  if (!trace || workgroup >= trace->workgroups) return NULL;
  struct rpl_traced_wave *t = &trace->waves[(size_t)workgroup * r->waves_per_workgroup + wave];
  uint32_t place = slot * r->waves_per_workgroup + wave;
  t->simd = place % r->cu->simds;
  t->slot = place / r->cu->simds;
  t->begin = now;
  return t;
}

static void trace_event(struct unit *u, struct wave_state *w, uint32_t inst) {
  struct rpl_traced_wave *t = w->traced;
  if (!t) return;
  if (t->count == t->capacity) {
    uint64_t capacity = 2 * t->capacity + 256;
    struct rpl_event *grown = realloc(t->events, capacity * sizeof *grown);
    if (!grown) { u->run->thread_trace->is_short_of_memory = 1; return; }
    t->events = grown;
    t->capacity = capacity;
  }
  t->events[t->count++] = (struct rpl_event){.attempt = w->attempt, .issued = w->issued, .done = w->ready, .inst = inst};
}

void rpl_thread_trace_free(struct rpl_thread_trace *trace, uint64_t waves) {
  for (uint64_t i = 0; i < waves; i++) free(trace->waves[i].events);
}

// ---- workgroups ----

static void start_workgroup(struct unit *u, uint32_t slot, double now) {
  const struct rpl_cu_run *r = u->run;
  uint32_t number = u->next_workgroup++, trace = r->order[number];
  now = later(now, u->next_launch);
  u->next_launch = now + r->cu->launch_cycles;
  r->begin_cycles[number] = now;
  u->groups[slot] = (struct group_state){.live = r->waves_per_workgroup, .workgroup = number};
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    const struct rpl_timed_wave *t = &r->waves[(size_t)trace * r->waves_per_workgroup + i];
    uint32_t place = slot * r->waves_per_workgroup + i;
    double begin = now + SLOT_CYCLES * (double)i;  // a shader engine starts one wavefront per slot
    memset(w, 0, sizeof *w);
    w->words = t->words;
    w->count = t->count;
    w->trace = trace;
    w->ready = w->started = w->try_at = begin;
    w->vector_issued = w->scalar_result = w->lds_next = w->block_entered = -1e9;
    w->previous_unit = RPL_UNIT_INTERNAL;
    w->fetch_block = w->code_line = ~0ull;
    w->group_slot = slot;
    w->simd = place % r->cu->simds;
    w->port = place / r->cu->simds % PORTS;
    w->active = 1;
    w->age = (uint64_t)number * r->waves_per_workgroup + i;
    w->salt = (uint64_t)(number + 1) << 46;
    w->traced = traced_wave(r, number, slot, i, begin);
  }
}

static void end_wave(struct unit *u, struct wave_state *w) {
  const struct rpl_cu_run *r = u->run;
  struct group_state *g = &u->groups[w->group_slot];
  w->active = 0;
  r->counters->wave_cycles += w->ready - w->started;
  if (w->traced) w->traced->end = w->ready;
  g->barrier = later(g->barrier, w->ready);
  if (--g->live == 0) {
    r->finish_cycles[g->workgroup] = g->barrier;
    if (u->next_workgroup < r->workgroups) start_workgroup(u, w->group_slot, g->barrier + r->cu->replace_cycles);
  }
}

static void open_barrier(struct unit *u, uint32_t slot) {
  const struct rpl_cu_run *r = u->run;
  struct group_state *g = &u->groups[slot];
  if (!g->waiting || g->waiting < g->live) return;
  double open = 0;
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    if (w->at_barrier) open = later(open, w->issued);
  }
  open += r->cu->barrier_cycles;
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    if (!w->at_barrier) continue;
    uint32_t inst = w->inst - 1;  // the barrier: it ended its basic block
    double wait = later(open - w->ready, 0);
    r->counters->wait_cycles += wait;
    r->latency_cycles[inst] += wait;
    r->stall_cycles[inst] += wait;
    w->try_at = w->ready += wait;
    if (w->traced && w->traced->count) w->traced->events[w->traced->count - 1].done = w->ready;
    w->at_barrier = 0;
  }
  g->waiting = 0;
}

// ---- issue ----

// Returns when the bytes of an instruction are there: from the instruction cache, and from the buffer of the wavefront.
static double fetched(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  if (!w->begun) {
    w->begun = 1;
    if (!u->has_fetched) {
      u->has_fetched = 1;
      u->code_ready = now + cu->first_fetch_cycles;
    }
    now = later(now + cu->wave_start_cycles, u->code_ready);
  }
  uint64_t block = (t->address + t->size - 1) >> FETCH_SHIFT, line = (t->address + t->size - 1) >> CODE_LINE_SHIFT;
  if (line != w->code_line) {
    int hit;
    size_t entry = cache_lookup(&u->code, line, &hit);
    if (hit) {
      n->instruction_hits++;
    } else {
      n->instruction_misses++;
      // The first pass is prefetched; a line that was replaced, or a jump to a new one, is not.
      int is_next = w->code_line != ~0ull && line == w->code_line + 1, is_first = n->instruction_misses <= u->code.sets * u->code.ways;
      u->code.filled[entry] = is_first && (is_next || w->code_line == ~0ull) ? now : now + cu->instruction_miss_cycles;
    }
    now = later(now, u->code.filled[entry]);
    w->code_line = line;
  }
  if (block != w->fetch_block) {
    n->fetches++;
    n->level_fetch += cu->fetch_block_cycles;
    if (block == w->fetch_block + 1) now = later(now, w->block_entered + cu->fetch_block_cycles);
    w->block_entered = now;
    w->fetch_block = block;
  }
  return now;
}

// Returns when the results that an instruction reads, and the pipelines that it follows, let it issue.
static double unblocked(const struct unit *u, const struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  if (t->producer && t->producer <= ISSUED && t->producer <= w->issues)
    now = later(now, w->recent[(w->issues - t->producer) % ISSUED] + t->producer_cycles);
  switch (t->unit) {
    case RPL_UNIT_LOAD: case RPL_UNIT_STORE: case RPL_UNIT_ATOMIC: return later(now, w->vector_issued + cu->valu_to_memory_cycles);
    case RPL_UNIT_LDS: return later(later(now, w->vector_issued + cu->valu_to_memory_cycles), w->lds_next);
    case RPL_UNIT_BRANCH:
      if (w->previous_unit == RPL_UNIT_SCALAR) now += cu->scalar_to_branch_cycles - SLOT_CYCLES;
      return later(now, w->scalar_result + cu->valu_to_scalar_cycles);
    case RPL_UNIT_SCALAR: case RPL_UNIT_SMEM: return later(now, w->scalar_result + cu->valu_to_scalar_cycles);
    case RPL_UNIT_WAIT: case RPL_UNIT_BARRIER: case RPL_UNIT_INTERNAL:
      return w->previous_unit == RPL_UNIT_MATRIX ? now + cu->matrix_to_wait_cycles - SLOT_CYCLES : now;
    default: return now;
  }
}

static int is_exclusive(const struct rpl_timed_instruction *t) {
  return !!(t->flags & RPL_F_EXCLUSIVE) || t->unit == RPL_UNIT_MATRIX;
}

// Two wavefronts of a SIMD, of even and odd slots, issue vector instructions side by side, except for exclusive instructions;
// of those that read a constant one issues at a time.
static double vector_free(const struct simd *s, const struct wave_state *w, const struct rpl_timed_instruction *t) {
  double at = s->port[w->port];
  if (is_exclusive(t)) at = later(at, s->port[!w->port]);
  if (t->flags & RPL_F_CONSTANT) at = later(at, s->constant);
  return t->unit == RPL_UNIT_MATRIX ? later(at, s->matrix) : at;
}

static void issue_vector(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  struct simd *s = &u->simds[w->simd];
  double busy = t->unit == RPL_UNIT_MATRIX ? SLOT_CYCLES : t->cycles;
  s->port[w->port] = now + busy;
  if (is_exclusive(t)) s->port[!w->port] = now + busy;
  if (t->flags & RPL_F_CONSTANT) s->constant = now + busy;
  if (t->unit == RPL_UNIT_MATRIX) {
    s->matrix = now + t->cycles;
    u->run->counters->matrix_busy_cycles += t->cycles;
    u->run->counters->active_matrix += SLOT_CYCLES;
  } else {
    w->vector_issued = now;
    u->run->counters->valu_busy_cycles += busy;
  }
  if (t->flags & RPL_F_WRITES_SGPR) w->scalar_result = now;
  u->run->counters->active_valu += SLOT_CYCLES;
  w->ready = now + t->issue_cycles;
}

// A write enters the LDS after its data have left the registers.
static void issue_lds(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  int is_write = !!(t->flags & RPL_F_LDS_WRITE);
  double busy = 1;
  if (record_is(w, RPL_T_LDS, w->inst)) busy = (double)(w->words[w->next++] >> 32 & 0xffffff);
  if (is_write) busy = later(busy * cu->lds_write_factor - 1, SLOT_CYCLES);
  double start = later(is_write ? now + t->issue_cycles : now, u->lds_free);
  n->wait_lds_cycles += now - w->attempt;
  u->lds_free = start + busy;
  n->lds_busy_cycles += busy;
  n->active_lds += SLOT_CYCLES;
  w->lds_next = now + later(cu->lds_issue_cycles, (double)SLOT_CYCLES * t->dwords);
  w->ready = now + t->issue_cycles;
  double done = start + busy + (is_write ? cu->lds_write_latency : cu->lds_latency);
  n->level_lds += done - now;
  pend(&w->scalar, done);
}

static void issue_vector_memory(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  struct rpl_cu_counters *n = u->run->counters;
  double start = later(now, u->address_free);
  w->ready = now + t->issue_cycles;
  n->active_vector_memory += SLOT_CYCLES;
  n->l1_queue_cycles += now - w->attempt;
  if (!record_is(w, RPL_T_VMEM, w->inst)) return;
  u->vector_starts[u->vector_count++ % VECTOR_QUEUE] = start;
  double done = vector_memory(u, w, start, t);
  n->level_vector_memory += done - now;
  if (t->unit == RPL_UNIT_STORE || (t->unit == RPL_UNIT_ATOMIC && !(t->flags & RPL_F_RETURNS))) w->last_store = later(w->last_store, done);
  pend(&w->vector, done);
}

// Returns whether the next block of the trace is not the one that follows in memory.
static int is_taken(const struct unit *u, const struct wave_state *w, const struct rpl_timed_instruction *t, int *straddles) {
  const struct rpl_cu_run *r = u->run;
  for (uint64_t i = w->next; i < w->count; i++) {
    if (w->words[i] >> 56 != RPL_T_BLOCK) continue;
    const struct rpl_timed_instruction *target = &r->instructions[r->blocks[w->words[i] & 0xffffffff].first];
    *straddles = target->address >> FETCH_SHIFT != (target->address + target->size - 1) >> FETCH_SHIFT;
    return target->address != t->address + t->size;
  }
  return 0;
}

static void issue_branch(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  int straddles = 0;
  w->ready = now + t->issue_cycles;
  u->run->counters->active_other += SLOT_CYCLES;
  if (!is_taken(u, w, t, &straddles)) return;
  w->ready = now + (straddles ? cu->branch_straddling_cycles : cu->branch_taken_cycles);
  w->fetch_block = ~0ull - 1;
}

// Returns when the port or queue of an instruction accepts it.
static double accepted(const struct unit *u, const struct wave_state *w, const struct rpl_timed_instruction *t) {
  const struct simd *s = &u->simds[w->simd];
  switch (t->unit) {
    case RPL_UNIT_VALU: case RPL_UNIT_MATRIX: return vector_free(s, w, t);
    case RPL_UNIT_SCALAR: return s->scalar;
    case RPL_UNIT_LDS: return u->lds_free - u->run->cu->lds_queue_cycles;
    case RPL_UNIT_LOAD: case RPL_UNIT_STORE: case RPL_UNIT_ATOMIC: return vector_queue_free(u);
    default: return 0;
  }
}

static void issue(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t, double now) {
  struct rpl_cu_counters *n = u->run->counters;
  double waited;
  w->issued = now;
  switch (t->unit) {
    case RPL_UNIT_VALU: case RPL_UNIT_MATRIX: issue_vector(u, w, t, now); break;
    case RPL_UNIT_SCALAR:
      w->attempt = now;  // the unit served another wavefront: idle, not a stall
      u->simds[w->simd].scalar = now + SLOT_CYCLES;
      n->active_scalar += SLOT_CYCLES;
      w->ready = now + t->issue_cycles;
      break;
    case RPL_UNIT_SMEM:
      w->ready = now + t->issue_cycles;
      n->active_other += SLOT_CYCLES;
      waited = record_is(w, RPL_T_SMEM, w->inst) ? scalar_load(u, w, now) : now + u->run->cu->scalar_cached_latency;
      n->level_scalar_memory += waited - now;
      pend(&w->scalar, waited);
      break;
    case RPL_UNIT_LDS: issue_lds(u, w, t, now); break;
    case RPL_UNIT_LOAD: case RPL_UNIT_STORE: case RPL_UNIT_ATOMIC: issue_vector_memory(u, w, t, now); break;
    case RPL_UNIT_BRANCH: issue_branch(u, w, t, now); break;
    case RPL_UNIT_WAIT:
      waited = drained(&w->scalar, t->lgkmcnt, drained(&w->vector, t->vmcnt, now));
      n->wait_cycles += waited - now;
      w->issued = waited;
      w->ready = waited + t->issue_cycles;
      break;
    case RPL_UNIT_BARRIER:
      w->at_barrier = 1;
      w->ready = now + t->issue_cycles;
      u->groups[w->group_slot].waiting++;
      break;
    case RPL_UNIT_END:
      w->ready = later(now + t->issue_cycles, w->last_store);  // its registers are free only after its stores are acknowledged
      break;
    default:
      if (t->flags & RPL_F_INVALIDATES_L1) memset(u->l1.used, 0, (size_t)u->l1.sets * u->l1.ways * sizeof *u->l1.used);
      w->ready = now + t->issue_cycles;
      n->active_other += SLOT_CYCLES;
  }
  if (t->unit != RPL_UNIT_WAIT) n->wait_issue_cycles += w->issued - w->attempt;
  w->recent[w->issues++ % ISSUED] = w->issued;
  w->previous_unit = t->unit;
}

// Returns 0 at the end of the trace.
static int has_instruction(struct unit *u, struct wave_state *w) {
  while (!w->block_left) {
    if (w->next >= w->count) return 0;
    uint64_t tag = w->words[w->next] >> 56;
    if (tag == RPL_T_LDS || tag == RPL_T_DETAIL || !tag) { w->next++; continue; }
    if (tag != RPL_T_BLOCK) { skip_record(w); continue; }
    const struct rpl_timed_block *b = &u->run->blocks[w->words[w->next++] & 0xffffffff];
    w->inst = b->first;
    w->block_left = b->count;
  }
  return 1;
}

// Issues the next instruction of a wavefront, or finds when it can. Returns 0 at the end of its trace.
static int step(struct unit *u, struct wave_state *w) {
  const struct rpl_cu_run *r = u->run;
  if (!w->is_prepared) {
    if (!has_instruction(u, w)) return 0;
    const struct rpl_timed_instruction *t = &r->instructions[w->inst];
    w->attempt = unblocked(u, w, t, fetched(u, w, t, w->ready));
    w->is_prepared = 1;
    w->accesses_memory = t->unit == RPL_UNIT_LOAD || t->unit == RPL_UNIT_STORE || t->unit == RPL_UNIT_ATOMIC;
    if (w->attempt > w->try_at) {
      w->try_at = w->attempt;
      return 1;
    }
  }
  uint32_t inst = w->inst;
  const struct rpl_timed_instruction *t = &r->instructions[inst];
  double at = accepted(u, w, t), before = w->ready;
  if (at > w->try_at) {
    w->try_at = at;
    return 1;
  }
  w->block_left--;
  issue(u, w, t, w->try_at);
  w->inst++;
  w->is_prepared = w->accesses_memory = 0;
  w->try_at = w->ready;
  r->hits[inst]++;
  r->latency_cycles[inst] += w->ready - w->attempt;
  r->stall_cycles[inst] += w->issued - w->attempt;
  r->idle_cycles[inst] += w->attempt - before;
  trace_event(u, w, inst);
  return t->unit != RPL_UNIT_END;
}

// Of wavefronts that can issue at the same time, the oldest one issues to memory, so that its accesses to the same lines follow each
// other; otherwise that which waits for longer.
static int is_before(const struct wave_state *a, const struct wave_state *b) {
  if (a->try_at != b->try_at) return a->try_at < b->try_at;
  if (a->ready != b->ready && !(a->accesses_memory && b->accesses_memory)) return a->ready < b->ready;
  return a->age < b->age;
}

static struct wave_state *first_ready(struct unit *u, uint32_t count) {
  struct wave_state *first = NULL;
  for (uint32_t i = 0; i < count; i++) {
    struct wave_state *w = &u->waves[i];
    if (!w->active || w->at_barrier) continue;
    if (!first || is_before(w, first)) first = w;
  }
  return first;
}

// Returns the clocks in which at least one workgroup was on the unit.
static double occupied(const struct rpl_cu_run *r) {
  double sum = 0, end = 0;
  for (uint32_t i = 0; i < r->workgroups; i++) {  // they begin in order
    double begin = later(r->begin_cycles[i], end);
    if (r->finish_cycles[i] > begin) sum += r->finish_cycles[i] - begin;
    end = later(end, r->finish_cycles[i]);
  }
  return sum;
}

int rpl_time_compute_unit(const struct rpl_cu_run *r) {
  const struct rpl_cu_parameters *cu = r->cu;
  uint32_t slots = r->resident < r->workgroups ? r->resident : r->workgroups, count = slots * r->waves_per_workgroup;
  if (cu->outstanding_lines > MAX_OUTSTANDING || cu->vector_queue > VECTOR_QUEUE) return 1;
  struct unit *u = calloc(1, sizeof *u);
  if (!u) return 1;
  u->run = r;
  u->waves = calloc(count, sizeof *u->waves);
  u->groups = calloc(slots, sizeof *u->groups);
  u->simds = calloc(cu->simds, sizeof *u->simds);
  int ok = u->waves && u->groups && u->simds;
  ok &= cache_open(&u->l1, cu->l1_lines, cu->l1_ways, 0) & cache_open(&u->l2, cu->l2_lines, WAYS, 1) &
        cache_open(&u->mall, r->sources ? 1 : cu->mall_lines, WAYS, 1) & cache_open(&u->scalar, cu->scalar_lines, WAYS, 1) &
        cache_open(&u->code, cu->instruction_lines, WAYS, 1) & cache_open(&u->tlb, cu->tlb_entries, cu->tlb_entries, 1);
  for (uint32_t slot = 0; ok && slot < slots; slot++) start_workgroup(u, slot, 0);
  while (ok) {
    struct wave_state *w = first_ready(u, count);
    if (!w) break;
    uint32_t slot = w->group_slot;
    if (!step(u, w)) end_wave(u, w);
    open_barrier(u, slot);
  }
  for (uint32_t i = 0; ok && i < r->workgroups; i++) r->counters->cycles = later(r->counters->cycles, r->finish_cycles[i]);
  if (ok) r->counters->busy_cycles = occupied(r);
  free(u->waves); free(u->groups); free(u->simds);
  cache_close(&u->l1); cache_close(&u->l2); cache_close(&u->mall); cache_close(&u->scalar); cache_close(&u->code); cache_close(&u->tlb);
  free(u);
  return !ok;
}

// ---- launch ----

static void sift_down(double *heap, uint64_t count, uint64_t at) {
  for (;;) {
    uint64_t child = 2 * at + 1;
    if (child >= count) return;
    if (child + 1 < count && heap[child + 1] < heap[child]) child++;
    if (heap[at] <= heap[child]) return;
    double swap = heap[at];
    heap[at] = heap[child];
    heap[child] = swap;
    at = child;
  }
}

int rpl_makespan(const double *durations, uint64_t count, uint64_t slots, double *end) {
  double *heap = calloc(slots, sizeof *heap);  // times at which the slots are free, smallest first
  if (!heap) return 1;
  *end = 0;
  for (uint64_t i = 0; i < count; i++) {
    heap[0] += durations[i];
    *end = later(*end, heap[0]);
    sift_down(heap, slots, 0);
  }
  free(heap);
  return 0;
}
