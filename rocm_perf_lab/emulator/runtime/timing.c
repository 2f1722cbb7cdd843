// In-order wavefronts on four SIMDs that share a scalar unit, LDS, a vector L1 and their part of L2, MALL and HBM.
// The first ready wavefront issues (the older one on a tie); completion times of memory are known when an
// instruction is issued, so that no event queue is needed.
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wave.h"

enum { MAX_PENDING = 64, WAYS = 16, LINE_SHIFT = 7 };

struct cache { uint64_t *tags; uint64_t *used; uint32_t sets; uint64_t clock; };

struct pending { double done[MAX_PENDING]; uint32_t count; };

struct wave_state {
  const uint64_t *words; uint64_t next, count;
  uint32_t inst, block_left;
  double ready, started, attempt, issued;
  struct pending vector, scalar;
  uint32_t group_slot, simd, active, at_barrier;
  uint64_t age, salt;
  struct rpl_traced_wave *traced;  // NULL: not traced
};

struct group_state { uint32_t live, waiting, workgroup; double barrier; };

struct unit {
  const struct rpl_cu_run *run;
  struct wave_state *waves; struct group_state *groups;
  double *simd_free;
  double scalar_free, lds_free, l1_free, l2_free, mall_free, dram_free;
  struct cache l1, l2, mall;
  uint32_t next_workgroup;
};

static int cache_open(struct cache *c, uint32_t lines) {
  c->sets = lines / WAYS ? lines / WAYS : 1;
  c->tags = calloc((size_t)c->sets * WAYS, sizeof *c->tags);
  c->used = calloc((size_t)c->sets * WAYS, sizeof *c->used);
  c->clock = 0;
  return c->tags && c->used;
}

static void cache_close(struct cache *c) { free(c->tags); free(c->used); }

static int cache_lookup(struct cache *c, uint64_t line) {
  uint64_t hash = line * 0x9E3779B97F4A7C15ull;  // only its upper bits spread neighbouring lines evenly
  size_t base = (size_t)((unsigned __int128)hash * c->sets >> 64) * WAYS, oldest = base;
  for (size_t i = base; i < base + WAYS; i++) {
    if (c->used[i] && c->tags[i] == line) { c->used[i] = ++c->clock; return 1; }
    if (c->used[i] < c->used[oldest]) oldest = i;
  }
  c->tags[oldest] = line;
  c->used[oldest] = ++c->clock;
  return 0;
}

static double later(double a, double b) { return a > b ? a : b; }

// Transfers data through a pipe: starts when it is free, ends after bytes / rate.
static double transfer(double *free_at, double start, double bytes, double rate) {
  *free_at = later(*free_at, start) + bytes / rate;
  return *free_at;
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

static double load_line(struct unit *u, double start, uint64_t line, int shared) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  if (cache_lookup(&u->l1, line)) return start + cu->l1_latency;
  n->l2_reads++;
  double at_l2 = transfer(&u->l2_free, start, 128, cu->l2_bytes) + cu->l2_latency;
  if (cache_lookup(&u->l2, line) || shared) { n->l2_hits++; return at_l2; }
  n->l2_misses++;
  n->dram_reads++;
  if (cu->mall_lines && cache_lookup(&u->mall, line))
    return transfer(&u->mall_free, start, 128, cu->mall_bytes) + cu->mall_latency;
  return later(at_l2, transfer(&u->dram_free, start, 128, cu->dram_bytes) + cu->dram_latency);
}

static double store_segment(struct unit *u, double start, uint64_t address) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  n->l2_writes++;
  n->dram_writes++;
  if (cache_lookup(&u->l2, address >> LINE_SHIFT)) n->l2_hits++; else n->l2_misses++;
  transfer(&u->dram_free, start, 64, cu->dram_bytes);
  return transfer(&u->l2_free, start, 64, cu->l2_bytes) + cu->l2_latency;
}

// Replays all segments of one vector memory instruction; returns the time of its last data.
static double vector_memory(struct unit *u, struct wave_state *w, double now, int is_store) {
  uint64_t segments = w->words[w->next] >> 32 & 0xffffff;
  w->next++;
  double start = later(now, u->l1_free), done = start + u->run->cu->l1_latency;
  uint64_t last_line = ~0ull;
  for (uint64_t i = 0; i < segments && w->next < w->count; i++, w->next++) {
    uint64_t word = w->words[w->next], shared = word & 1, address = word & ~63ull;
    if (!shared) address ^= w->salt;
    double at = transfer(&u->l1_free, now, 64, u->run->cu->l1_bytes);
    u->run->counters->l1_lookups += 2;
    if (is_store) done = later(done, store_segment(u, at, address));
    else if (address >> LINE_SHIFT != last_line) done = later(done, load_line(u, at, address >> LINE_SHIFT, (int)shared));
    last_line = address >> LINE_SHIFT;
  }
  u->run->counters->memory_instructions++;
  return done;
}

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

static void start_workgroup(struct unit *u, uint32_t slot, double now) {
  const struct rpl_cu_run *r = u->run;
  uint32_t number = u->next_workgroup++, sample = number % r->sampled_workgroups;
  u->groups[slot] = (struct group_state){.live = r->waves_per_workgroup, .workgroup = number};
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    const struct rpl_timed_wave *t = &r->waves[sample * r->waves_per_workgroup + i];
    *w = (struct wave_state){.words = t->words, .count = t->count, .ready = now, .started = now, .group_slot = slot,
                             .simd = (slot * r->waves_per_workgroup + i) % r->cu->simds, .active = 1,
                             .age = (uint64_t)number * r->waves_per_workgroup + i,
                             .salt = (uint64_t)(number / r->sampled_workgroups) << 44,
                             .traced = traced_wave(r, number, slot, i, now)};
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
    if (u->next_workgroup < r->workgroups) start_workgroup(u, w->group_slot, g->barrier + r->cu->workgroup_launch_cycles);
  }
}

static void open_barrier(struct unit *u, uint32_t slot) {
  const struct rpl_cu_run *r = u->run;
  struct group_state *g = &u->groups[slot];
  if (!g->waiting || g->waiting < g->live) return;
  double open = 0;
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    if (w->at_barrier) open = later(open, w->ready);
  }
  for (uint32_t i = 0; i < r->waves_per_workgroup; i++) {
    struct wave_state *w = &u->waves[slot * r->waves_per_workgroup + i];
    if (!w->at_barrier) continue;
    uint32_t inst = w->inst - 1;  // the barrier: it ended its basic block
    r->counters->wait_cycles += open - w->ready;
    r->latency_cycles[inst] += open + r->cu->barrier_cycles - w->ready;
    r->stall_cycles[inst] += open + r->cu->barrier_cycles - w->ready;
    w->ready = open + r->cu->barrier_cycles;
    if (w->traced && w->traced->count) w->traced->events[w->traced->count - 1].done = w->ready;
    w->at_barrier = 0;
  }
  g->waiting = 0;
}

static void issue(struct unit *u, struct wave_state *w, const struct rpl_timed_instruction *t) {
  const struct rpl_cu_parameters *cu = u->run->cu;
  struct rpl_cu_counters *n = u->run->counters;
  uint32_t inst = (uint32_t)(t - u->run->instructions);
  double now = w->ready, waited;
  w->attempt = w->issued = now;
  switch (t->unit) {
    case RPL_UNIT_VALU:
      now = w->issued = later(now, u->simd_free[w->simd]);
      u->simd_free[w->simd] = w->ready = now + t->cycles;
      n->valu_busy_cycles += t->cycles;
      return;
    case RPL_UNIT_SCALAR: case RPL_UNIT_BRANCH:
      now = w->attempt = w->issued = later(now, u->scalar_free);  // served another wavefront: idle, not a stall
      u->scalar_free = now + 1;
      w->ready = now + t->cycles;
      return;
    case RPL_UNIT_SMEM:
      w->ready = now + t->cycles;
      if (record_is(w, RPL_T_SMEM, inst)) skip_record(w);
      pend(&w->scalar, now + cu->scalar_load_latency);
      return;
    case RPL_UNIT_LDS: {
      double busy = 1;
      if (record_is(w, RPL_T_LDS, inst)) busy = (double)(w->words[w->next++] >> 32 & 0xffffff);
      double start = later(now, u->lds_free);
      u->lds_free = start + busy;
      w->ready = now + t->cycles;
      pend(&w->scalar, start + busy + cu->lds_latency);
      return;
    }
    case RPL_UNIT_LOAD: case RPL_UNIT_STORE:
      w->ready = now + t->cycles;
      if (record_is(w, RPL_T_VMEM, inst)) pend(&w->vector, vector_memory(u, w, now, t->unit == RPL_UNIT_STORE));
      return;
    case RPL_UNIT_WAIT:
      waited = drained(&w->scalar, t->lgkmcnt, drained(&w->vector, t->vmcnt, now));
      n->wait_cycles += waited - now;
      w->issued = waited;
      w->ready = waited + 1;
      return;
    case RPL_UNIT_BARRIER:
      w->at_barrier = 1;
      w->ready = now + t->cycles;
      u->groups[w->group_slot].waiting++;
      return;
    default: w->ready = now + t->cycles;
  }
}

// Returns the next instruction of a wavefront, or 0 at the end of its trace.
static int step(struct unit *u, struct wave_state *w) {
  const struct rpl_cu_run *r = u->run;
  while (!w->block_left) {
    if (w->next >= w->count) return 0;
    if (tag_is(w, RPL_T_LDS)) { w->next++; continue; }
    if (!tag_is(w, RPL_T_BLOCK)) { skip_record(w); continue; }
    const struct rpl_timed_block *b = &r->blocks[w->words[w->next++] & 0xffffffff];
    w->inst = b->first;
    w->block_left = b->count;
  }
  uint32_t inst = w->inst++;
  const struct rpl_timed_instruction *t = &r->instructions[inst];
  double before = w->ready;
  w->block_left--;
  issue(u, w, t);
  r->hits[inst]++;
  r->latency_cycles[inst] += w->ready - w->attempt;
  r->stall_cycles[inst] += w->issued - w->attempt;
  r->idle_cycles[inst] += w->attempt - before;
  trace_event(u, w, inst);
  return t->unit != RPL_UNIT_END;
}

static struct wave_state *first_ready(struct unit *u, uint32_t count) {
  struct wave_state *first = NULL;
  for (uint32_t i = 0; i < count; i++) {
    struct wave_state *w = &u->waves[i];
    if (!w->active || w->at_barrier) continue;
    if (!first || w->ready < first->ready || (w->ready == first->ready && w->age < first->age)) first = w;
  }
  return first;
}

int rpl_time_compute_unit(const struct rpl_cu_run *r) {
  uint32_t slots = r->resident < r->workgroups ? r->resident : r->workgroups, count = slots * r->waves_per_workgroup;
  struct unit u = {.run = r};
  u.waves = calloc(count, sizeof *u.waves);
  u.groups = calloc(slots, sizeof *u.groups);
  u.simd_free = calloc(r->cu->simds, sizeof *u.simd_free);
  int ok = u.waves && u.groups && u.simd_free && cache_open(&u.l1, r->cu->l1_lines) && cache_open(&u.l2, r->cu->l2_lines)
           && cache_open(&u.mall, r->cu->mall_lines);
  for (uint32_t slot = 0; ok && slot < slots; slot++) start_workgroup(&u, slot, (double)slot * r->cu->workgroup_launch_cycles);
  while (ok) {
    struct wave_state *w = first_ready(&u, count);
    if (!w) break;
    uint32_t slot = w->group_slot;
    if (!step(&u, w)) end_wave(&u, w);
    open_barrier(&u, slot);
  }
  for (uint32_t i = 0; ok && i < r->workgroups; i++) r->counters->cycles = later(r->counters->cycles, r->finish_cycles[i]);
  free(u.waves); free(u.groups); free(u.simd_free);
  cache_close(&u.l1); cache_close(&u.l2); cache_close(&u.mall);
  return !ok;
}
