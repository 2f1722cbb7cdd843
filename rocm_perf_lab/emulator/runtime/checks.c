// The checks of checks.h. Two accesses race if they share a byte, one writes, not both are coherent, and they are not
// ordered by the program, a barrier of their workgroup, or a release fence of the one and an acquire fence of the other
// workgroup. An access is dropped once a later one is ordered behind it and races with everything that it would race with
// (Flanagan and Freund, FastTrack, PLDI 2009), so an atomic does not hide a plain store before it.
// An atomic that returns the value it replaces also orders earlier atomic stores to this address before what follows: a counter
// tells the last wavefront that all others have counted.
// Two stores of the same value are not a race but a separate finding, since memory holds the same in any order.
#include <stdlib.h>
#include <sys/mman.h>
#include "access.h"
#include "checks.h"
#include "short_cells.h"

enum { DWORD = 4, ALL_BYTES = 15 };
#define RPL_IN_LDS ((uint64_t)RPL_LDS_APERTURE << RPL_APERTURE_SHIFT)

static int is_on(const struct rpl_checks *c, int kind) { return c->enabled >> kind & 1; }

// ---- findings ----

static struct rpl_finding *report(struct rpl_wave *w, int kind, int inst) {
  struct rpl_checks *c = w->group->checks;
  if (!is_on(c, kind)) return NULL;
  if (inst >= 0) {
    if (c->reported[inst] >> kind & 1) return NULL;
    c->reported[inst] |= (uint8_t)(1u << kind);
  }
  if (c->finding_count == c->finding_capacity) return NULL;
  struct rpl_finding *f = &c->findings[c->finding_count++];
  memset(f, 0, sizeof *f);
  f->kind = (uint32_t)kind;
  f->inst = inst;
  f->other_inst = -1;
  f->wave = w->wave_in_workgroup;
  memcpy(f->workgroup, w->workgroup, sizeof f->workgroup);
  return f;
}

static void report_access(struct rpl_wave *w, int kind, int inst, int access, uint64_t lanes, uint64_t address, uint32_t width,
                          const struct rpl_touch *other) {
  struct rpl_finding *f = report(w, kind, inst);
  if (!f) return;
  f->access = (uint32_t)access;
  f->width_bytes = width;
  f->lanes = lanes;
  f->address = address;
  if (other) {
    f->other_inst = other->inst;
    f->other_wave = other->wave;
  }
}

// ---- order ----

static const uint8_t RACES_WITH[] = {
    [RPL_PLAIN_LOAD] = 1 << RPL_COHERENT_STORE | 1 << RPL_PLAIN_STORE,
    [RPL_COHERENT_LOAD] = 1 << RPL_PLAIN_STORE,
    [RPL_COHERENT_STORE] = 1 << RPL_PLAIN_LOAD | 1 << RPL_PLAIN_STORE,
    [RPL_PLAIN_STORE] = 1 << RPL_PLAIN_LOAD | 1 << RPL_COHERENT_LOAD | 1 << RPL_COHERENT_STORE | 1 << RPL_PLAIN_STORE,
};

static int is_ordered(const struct rpl_group *g, const struct rpl_touch *t, uint32_t wave) {
  if (t->wave == wave) return 1;
  uint32_t waves = g->checks->waves_per_group;
  if (t->wave - 1 - g->number * waves < waves) return t->time < g->passed;
  uint32_t group = (t->wave - 1) / waves;
  return (g->checks->unseen_releases || g->checks->released[group] > t->time) && g->acquired > t->time;
}

// Returns the time of the last atomic before `now` that returned the value of the dword: earlier atomic stores were seen.
static uint32_t last_seen(const struct rpl_group *g, const struct rpl_cell *cell, const struct rpl_touch *now) {
  uint32_t time = 0;
  for (uint32_t i = 0; i < cell->used; i++) {
    const struct rpl_touch *t = &cell->touches[i];
    if (g->checks->traits[t->inst] & RPL_RETURNS && t->time > time && is_ordered(g, t, now->wave)) time = t->time;
  }
  return time;
}

static int races_no_more_than(const struct rpl_touch *before, const struct rpl_touch *now) {
  return !(RACES_WITH[before->kind] & ~RACES_WITH[now->kind]) && !(before->bytes & ~now->bytes);
}

static void forget(struct rpl_cell *cell, uint32_t place) { cell->touches[place] = cell->touches[--cell->used]; }

// Returns the oldest of its kind if there are two; if all entries are used, the oldest of any kind with two.
static uint32_t dispensable(const struct rpl_cell *cell, uint32_t kind) {
  uint32_t count[4] = {0}, oldest[4] = {0};
  for (uint32_t i = 0; i < cell->used; i++) {
    uint32_t k = cell->touches[i].kind;
    if (!count[k]++ || cell->touches[i].time < cell->touches[oldest[k]].time) oldest[k] = i;
  }
  for (uint32_t k = 0; count[kind] < 2 && k < 4; k++)
    if (count[k] > 1) kind = k;
  return oldest[kind];
}

static void remember(struct rpl_cell *cell, const struct rpl_touch *now) {
  uint32_t same = 0;
  for (uint32_t i = 0; i < cell->used; i++) {
    struct rpl_touch *t = &cell->touches[i];
    if (t->kind != now->kind) continue;
    if (t->wave == now->wave && t->time == now->time) {
      t->bytes |= now->bytes;
      return;
    }
    same++;
  }
  if (same > 1 || cell->used == RPL_CELL_PLACES) forget(cell, dispensable(cell, now->kind));
  cell->touches[cell->used++] = *now;
}

static int is_store(const struct rpl_touch *t) { return t->kind == RPL_COHERENT_STORE || t->kind == RPL_PLAIN_STORE; }

static int is_coherent(const struct rpl_touch *t) { return t->kind == RPL_COHERENT_LOAD || t->kind == RPL_COHERENT_STORE; }

// Returns whether an access is atomic, or may be without a mark, with respect to the wavefront of another access.
static int may_be_atomic(const struct rpl_group *g, const struct rpl_touch *t, const struct rpl_touch *other) {
  uint32_t waves = g->checks->waves_per_group;
  uint8_t traits = g->checks->traits[t->inst];
  int is_near = (t->wave - 1) / waves == (other->wave - 1) / waves;
  return is_coherent(t) || traits & RPL_MAY_BE_ATOMIC || (is_near && traits & RPL_MAY_BE_ATOMIC_IN_GROUP);
}

// Returns whether a load may be the guess of a loop of compare-and-swaps, to which compilers expand other atomics.
static int may_be_guess(const struct rpl_group *g, const struct rpl_touch *load, const struct rpl_touch *other) {
  return !is_store(load) && g->checks->traits[other->inst] & RPL_COMPARES;
}

// Returns whether two unordered accesses race: no (0), possibly (1), certainly (2). What may be atomic counts as atomic if the
// other access is.
static int races(const struct rpl_group *g, const struct rpl_touch *now, const struct rpl_touch *t) {
  if (!(t->bytes & now->bytes) || !(RACES_WITH[now->kind] >> t->kind & 1)) return 0;
  if (may_be_guess(g, now, t) || may_be_guess(g, t, now)) return 1;
  if (!may_be_atomic(g, now, t) || !may_be_atomic(g, t, now)) return 2;
  return !is_coherent(now) && !is_coherent(t);
}

// Returns whether `now` races with an access of the cell: no (0), possibly (1), certainly (2); adds `now` to the cell.
static int touch(const struct rpl_group *g, struct rpl_cell *cell, const struct rpl_touch *now, struct rpl_touch *raced) {
  int found = 0;
  uint32_t seen = last_seen(g, cell, now);
  for (uint32_t i = 0; i < cell->used;) {
    const struct rpl_touch *t = &cell->touches[i];
    int ordered = is_ordered(g, t, now->wave) || (t->kind == RPL_COHERENT_STORE && t->time < seen);
    int how = ordered ? 0 : races(g, now, t);
    if (how > found || (how && how == found && is_store(raced) > is_store(t))) {
      *raced = *t;  // prefer a load: a store may be of the same value
      found = how;
    }
    if (ordered && races_no_more_than(t, now)) forget(cell, i);
    else i++;
  }
  remember(cell, now);
  return found;
}

// Returns whether the wavefront made the same or a stronger access since the last barrier or fence.
static inline int is_known(const struct rpl_cell *cell, const struct rpl_touch *now) {
  if (cell->is_shared && is_store(now)) return 0;  // its value may have changed
  for (uint32_t i = 0; i < cell->used; i++) {
    const struct rpl_touch *t = &cell->touches[i];
    if (t->wave == now->wave && t->time == now->time && races_no_more_than(now, t)) return 1;
  }
  return 0;
}

// Returns the bytes of an access from `first` to `end` in dword k, both relative to the first dword.
static inline uint8_t byte_mask(uint32_t k, uint32_t first, uint32_t end) {
  uint32_t below = k ? 0 : first, left = end - DWORD * k;
  return (uint8_t)(ALL_BYTES << below & (left < DWORD ? (1u << left) - 1 : ALL_BYTES));
}

// Marks of coherence order accesses to memory only: in LDS they are those of volatile variables.
static struct rpl_touch touch_of(const struct rpl_wave *w, int inst, int access, int is_lds) {
  const struct rpl_group *g = w->group;
  int coherent = access == RPL_ATOMIC || (!is_lds && g->checks->traits[inst] & RPL_COHERENT);
  uint32_t kind = access == RPL_LOAD ? (coherent ? RPL_COHERENT_LOAD : RPL_PLAIN_LOAD)
                                     : (coherent ? RPL_COHERENT_STORE : RPL_PLAIN_STORE);
  return (struct rpl_touch){.wave = g->number * g->checks->waves_per_group + w->wave_in_workgroup + 1,
                            .time = g->checks->traits[inst] & RPL_RETURNS ? ++g->checks->clock : g->checks->clock, .inst = (uint32_t)inst, .kind = kind};
}

// ---- accesses ----

static void lanes_act(struct rpl_wave *w, int inst, uint64_t lanes);

struct verdicts {
  uint64_t raced, possible, same, uninitialised;        // lanes; same: stored the value of another wavefront
  struct rpl_touch other, other_possible, other_same;  // of the first lane that raced, possibly raced, or stored the same
};

// Returns whether a lane stores the present value of dword `k`; `memory` is the target address of the lane.
static int is_silent(const struct rpl_wave *w, uint64_t lane, uint32_t k, const uint8_t *memory, uint32_t width) {
  const struct rpl_group *g = w->group;
  if (g->stored < 0) return 0;
  uint32_t value = w->vgpr[g->stored + (int)k][lane] >> (g->stored_kind & RPL_D16_HI ? 16 : 0);
  return !memcmp(memory + DWORD * k, &value, width < DWORD ? width : DWORD);
}

// Empties a cell that an earlier launch or workgroup used.
static inline void renew(struct rpl_cell *cell, uint16_t epoch) {
  if (cell->epoch == epoch) return;
  cell->used = cell->is_shared = 0;
  cell->epoch = epoch;
}

// Shadow of consecutive dwords; any of them may be NULL.
struct piece {
  struct rpl_cell *cells;
  uint8_t *initialised;
  struct rpl_line *lines;
  struct rpl_short_cell *dwords;
  uint64_t first;              // index of the first dword in `lines` and `dwords`
  uint32_t epoch;
};

static int reads(const struct rpl_wave *w, const struct rpl_touch *now, int access) {
  return access == RPL_LOAD || (access == RPL_ATOMIC && !(w->group->checks->traits[now->inst] & RPL_ONLY_WRITES));
}

// Checks the access of one lane to host address `memory`.
static inline void check_dwords(const struct rpl_wave *w, const struct piece *piece, struct rpl_touch *now, int access, uint64_t lane,
                                const uint8_t *memory, uint32_t width, struct verdicts *v) {
  struct rpl_cell *cells = piece->cells;
  uint8_t *initialised = piece->initialised;
  uint32_t first = (uint64_t)memory % DWORD, end = first + width;  // LDS allows misaligned accesses of several dwords
  int is_split = first && width >= DWORD;
  int is_read = reads(w, now, access);
  for (uint32_t k = 0; k < (end + DWORD - 1) / DWORD; k++) {
    now->bytes = byte_mask(k, first, end);
    if (initialised) {
      if (is_read && (initialised[k] & now->bytes) != now->bytes) v->uninitialised |= 1ull << lane;
      if (access != RPL_LOAD) initialised[k] |= now->bytes;
    }
    if (!cells) continue;
    if (piece->lines) rpl_short_expand(piece->lines, piece->dwords, piece->first + k, piece->epoch, &cells[k]);
    renew(&cells[k], (uint16_t)piece->epoch);
    if (is_known(&cells[k], now)) continue;
    struct rpl_touch raced;
    int how = touch(w->group, &cells[k], now, &raced);
    if (!how) continue;
    if (access == RPL_STORE && !is_split && is_store(&raced) && is_silent(w, lane, k, memory, width)) {
      cells[k].is_shared = 1;
      if (!v->same) v->other_same = raced;
      v->same |= 1ull << lane;
    } else if (how == 1) {
      if (!v->possible) v->other_possible = raced;
      v->possible |= 1ull << lane;
    } else {
      if (!v->raced) v->other = raced;
      v->raced |= 1ull << lane;
    }
  }
}

void rpl_checked_scalar_alignment(struct rpl_wave *w, int inst, uint64_t address, uint32_t width) {
  if (w->group && address % DWORD) report_access(w, RPL_CHECK_ALIGNMENT, inst, RPL_LOAD, 1, address, width, NULL);
}

// The piece of memory that contains the address; from the sparse shadow of a driver, or made from those of whole allocations.
static const struct rpl_place *place_of(struct rpl_wave *w, uint64_t address, uint32_t width, struct rpl_place *whole) {
  struct rpl_machine *m = w->machine;
  struct rpl_checks *c = w->group->checks;
  if (c->shadow) {
    if (address < c->shadow->last.begin || address >= c->shadow->last.end) c->shadow->find(c->shadow, address);
    return &c->shadow->last;
  }
  const struct rpl_allocation *a = &m->allocations[m->last_hit];
  if (address < a->begin || address >= a->end) {
    rpl_find(m, address, address + width);
    a = &m->allocations[m->last_hit];
  }
  *whole = (struct rpl_place){.begin = a->begin, .end = a->end, .cells = c->cells[m->last_hit], .initialised = c->initialised[m->last_hit], .is_saved = 1};
  return whole;
}

// Shadow of a place from an address on.
static struct piece piece_of(const struct rpl_checks *c, const struct rpl_place *p, uint64_t address) {
  uint64_t dword = address / DWORD - p->begin / DWORD;  // a buffer may begin inside of a dword
  return (struct piece){p->cells ? p->cells + dword : NULL, p->initialised ? p->initialised + dword : NULL, p->lines, p->dwords,
                        address % RPL_PAGE_BYTES / DWORD, (uint16_t)c->epoch};
}

// Checks the access of one lane, piece by piece. Returns whether all of it is in memory that may be accessed.
static int check_lane(struct rpl_wave *w, struct rpl_touch *now, int access, uint64_t lane, uint64_t address, uint32_t width,
                      struct verdicts *v) {
  struct rpl_checks *c = w->group->checks;
  for (uint64_t end = address + width; address < end;) {
    struct rpl_place whole;
    const struct rpl_place *p = place_of(w, address, (uint32_t)(end - address), &whole);
    if (p->is_bad) return 0;
    uint64_t part = (p->end < end ? p->end : end) - address, before = v->uninitialised;
    if (access != RPL_LOAD && !p->is_saved) c->shadow->save(c->shadow, address);
    struct piece piece = piece_of(c, p, address);
    if (p->cells || p->initialised) check_dwords(w, &piece, now, access, lane, (const uint8_t *)address, (uint32_t)part, v);
    if (v->uninitialised != before && !p->is_saved) c->shadow->save(c->shadow, address);
    address += part;
  }
  return 1;
}

// Adds a lane to the last run, or begins another; returns the number of runs.
static inline int add_lane(struct rpl_run *runs, int count, uint64_t lane, uint64_t address, uint32_t width) {
  if (count > 0) {
    struct rpl_run *last = &runs[count - 1];
    int follows = address == last->end, repeats = address == last->end - width;
    if (follows) last->end += width;
    if (follows || repeats) {
      last->lanes |= 1ull << lane;
      return count;
    }
  }
  runs[count] = (struct rpl_run){address, address + width, 1ull << lane};
  return count + 1;
}

// Returns whether an access to whole dwords reads initialised memory only; what it writes becomes initialised.
static int is_initialised(uint8_t *initialised, uint64_t dwords, int is_read, int access) {
  uint8_t missing = 0;
  for (uint64_t k = 0; is_read && k < dwords; k++) missing |= (uint8_t)~initialised[k] & ALL_BYTES;
  if (access != RPL_LOAD && !missing) memset(initialised, ALL_BYTES, dwords);
  return !missing;
}

// Checks the access of a run at once. Returns 0 if there may be something to report; then its lanes have to be checked one by one.
static int check_run(struct rpl_wave *w, const struct rpl_short_access *a, const struct rpl_run *run, int access, int is_read) {
  struct rpl_checks *c = w->group->checks;
  if ((run->begin | run->end) % DWORD) return 0;
  for (uint64_t address = run->begin; address < run->end;) {
    if (address < c->shadow->last.begin || address >= c->shadow->last.end) c->shadow->find(c->shadow, address);
    const struct rpl_place *p = &c->shadow->last;
    if (p->is_bad || (p->cells && !p->lines)) return 0;
    uint64_t part = (p->end < run->end ? p->end : run->end) - address;
    if ((address | part) % DWORD) return 0;
    if (access != RPL_LOAD && !p->is_saved) c->shadow->save(c->shadow, address);
    struct piece piece = piece_of(c, p, address);
    if (piece.initialised && !is_initialised(piece.initialised, part / DWORD, is_read, access)) return 0;
    if (piece.cells && !rpl_short_add(p->lines, p->dwords, piece.first, part / DWORD, a)) return 0;
    address += part;
  }
  return 1;
}

void rpl_checked_memory(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  struct rpl_checks *c = w->group->checks;
  struct rpl_touch now = touch_of(w, inst, access, 0);
  struct rpl_short_access short_access = rpl_short_access_of(w->group, &now, 0);
  int is_read = reads(w, &now, access);
  uint64_t bad = 0;
  lanes_act(w, inst, lanes & rpl_exec(w));  // a scalar load is that of lane 0
  struct verdicts v = {0};
  struct rpl_run runs[RPL_LANES];
  int count = 0;
  RPL_FOR_LANES(lanes, lane) count = add_lane(runs, count, lane, address[lane], width);
  if (c->touched) c->note(c->touched, now.kind, access, (c->traits[inst] & RPL_ONLY_WRITES) != 0, runs, count);
  if (c->shadow && count > RPL_FEW_RUNS) c->shadow->expect(c->shadow, runs, count);
  for (const struct rpl_run *run = runs; run < runs + count; run++) {
    // Device libraries meet between a fence and a barrier, so a workgroup that saw the others is behind their fences.
    if (c->meeting && run->begin < c->meeting + RPL_MEETING_BYTES && run->end > c->meeting) w->group->acquired = ++c->clock;
    if (c->shadow && check_run(w, &short_access, run, access, is_read)) continue;
    RPL_FOR_LANES(run->lanes, lane)
      if (!check_lane(w, &now, access, lane, address[lane], width, &v)) bad |= 1ull << lane;
  }
  w->group->stored = -1;
  if (bad) c->shadow->bad(c->shadow, w, inst, access, bad, address, width);
  if (v.raced)
    report_access(w, RPL_CHECK_MEMORY_RACE, inst, access, v.raced, address[__builtin_ctzll(v.raced)], width, &v.other);
  if (v.possible)
    report_access(w, RPL_CHECK_POSSIBLE_RACE, inst, access, v.possible, address[__builtin_ctzll(v.possible)], width, &v.other_possible);
  if (v.same)
    report_access(w, RPL_CHECK_SAME_VALUE, inst, access, v.same, address[__builtin_ctzll(v.same)], width, &v.other_same);
  if (v.uninitialised)
    report_access(w, RPL_CHECK_MEMORY_UNINITIALISED, inst, access, v.uninitialised, address[__builtin_ctzll(v.uninitialised)],
                  width, NULL);
}

static int check_lds_run(struct rpl_group *g, const struct rpl_short_access *a, const struct rpl_run *run, int access, int is_read) {
  if ((run->begin | run->end) % DWORD || run->end > g->lds_bytes) return 0;
  uint64_t first = run->begin / DWORD, count = (run->end - run->begin) / DWORD;
  return is_initialised(g->lds_initialised + first, count, is_read, access) && rpl_short_add(g->lds_lines, g->lds_dwords, first, count, a);
}

void rpl_checked_lds(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint32_t *address, uint32_t width) {
  struct rpl_group *g = w->group;
  struct rpl_touch now = touch_of(w, inst, access, 1);
  lanes_act(w, inst, lanes);
  struct rpl_short_access short_access = rpl_short_access_of(g, &now, 1);
  int is_read = reads(w, &now, access);
  struct verdicts v = {0};
  struct rpl_run runs[RPL_LANES];
  int count = 0;
  RPL_FOR_LANES(lanes, lane) count = add_lane(runs, count, lane, address[lane], width);
  for (const struct rpl_run *run = runs; run < runs + count; run++) {
    if (check_lds_run(g, &short_access, run, access, is_read)) continue;
    RPL_FOR_LANES(run->lanes, lane) {
      uint32_t first = address[lane] / DWORD;
      struct piece piece = {g->lds + first, g->lds_initialised + first, g->lds_lines, g->lds_dwords, first, g->epoch};
      check_dwords(w, &piece, &now, access, lane, w->lds + address[lane], width, &v);
    }
  }
  g->stored = -1;
  int is_guess = v.possible && (g->checks->traits[inst] | g->checks->traits[v.other_possible.inst]) & RPL_COMPARES;
  if (is_guess)
    report_access(w, RPL_CHECK_POSSIBLE_RACE, inst, access, v.possible, RPL_IN_LDS | address[__builtin_ctzll(v.possible)], width,
                  &v.other_possible);
  if (v.possible && !is_guess) {  // instructions that may access device memory instead
    if (!v.raced) v.other = v.other_possible;
    v.raced |= v.possible;
  }
  if (v.raced) report_access(w, RPL_CHECK_LDS_RACE, inst, access, v.raced, address[__builtin_ctzll(v.raced)], width, &v.other);
  if (v.same)
    report_access(w, RPL_CHECK_SAME_VALUE, inst, access, v.same, RPL_IN_LDS | address[__builtin_ctzll(v.same)], width, &v.other_same);
  if (v.uninitialised)
    report_access(w, RPL_CHECK_LDS_UNINITIALISED, inst, access, v.uninitialised, address[__builtin_ctzll(v.uninitialised)], width,
                  NULL);
}

int rpl_checked_lds_range(struct rpl_wave *w, int inst, int access, uint64_t lanes, uint32_t *address, uint32_t width) {
  struct rpl_shadow *s = w->group ? w->group->checks->shadow : NULL;
  if (!s || !s->bad_lds) return 0;
  s->bad_lds(s, w, inst, access, lanes, address, width);
  RPL_FOR_LANES(lanes, l) address[l] = w->lds_bytes + (access == RPL_LOAD ? 0 : RPL_LDS_ZEROS);
  return 1;
}

// ---- order between workgroups ----

int rpl_fence(struct rpl_wave *w, int inst, int release) {
  (void)inst;
  struct rpl_group *g = w->group;
  if (!g) return 0;
  uint32_t now = ++g->checks->clock;
  if (release) g->checks->released[g->number] = now;
  else g->acquired = now;
  return 0;
}

// ---- barriers ----

// A barrier waits for the wavefronts that are alive. S_ENDPGM waits for all memory operations of its wavefront (CDNA3 ISA), and
// no barrier completes before each wavefront has arrived or ended. So the end of a wavefront orders its accesses like an arrival.
// Lanes do not end one by one: those that return early stay inactive until their wavefront ends. So lanes that are inactive
// at a barrier have skipped it only if they act later.

// Reports a barrier in a loop once, because the number of findings is limited.
static int is_told(const struct rpl_checks *c, uint32_t resume, int by_lanes) {
  for (uint64_t i = 0; i < c->finding_count; i++) {
    const struct rpl_finding *f = &c->findings[i];
    if (f->kind == RPL_CHECK_BARRIER && f->detail == resume && !f->lanes == !by_lanes) return 1;
  }
  return 0;
}

// Lanes of a wavefront act, at an access to memory (`inst`) or at a barrier (-1).
static void lanes_act(struct rpl_wave *w, int inst, uint64_t lanes) {
  struct rpl_group *g = w->group;
  struct rpl_skipped *skipped = &g->skipped[w->wave_in_workgroup];
  lanes &= skipped->lanes;
  if (!lanes) return;
  skipped->lanes = 0;
  if (is_told(g->checks, skipped->resume, 1)) return;
  struct rpl_finding *f = report(w, RPL_CHECK_BARRIER, -1);
  if (!f) return;
  f->detail = skipped->resume;
  f->lanes = lanes;
  f->other_inst = inst;
}

static void note_inactive_lanes(struct rpl_wave *w) {
  uint64_t active = rpl_exec(w);
  lanes_act(w, -1, active);
  // A wavefront without active lanes executes the barrier only because skipping the branch around it is optional.
  w->group->skipped[w->wave_in_workgroup] = (struct rpl_skipped){.lanes = active ? ~active : 0, .resume = w->resume};
}

void rpl_checked_arrival(struct rpl_wave *w) {
  struct rpl_group *g = w->group;
  if (!g->checks->one_barrier) note_inactive_lanes(w);
  if (!g->arrived_at) {
    g->arrived_at = w->resume + 1;
    return;
  }
  if (g->arrived_at == w->resume + 1 || g->checks->one_barrier || is_told(g->checks, w->resume, 0)) return;
  struct rpl_finding *f = report(w, RPL_CHECK_BARRIER, -1);
  if (f) f->detail = w->resume;
}

void rpl_checked_barrier(struct rpl_group *g) {
  g->arrived_at = 0;
  g->passed = ++g->checks->clock;
}

// ---- workgroups ----

static uint64_t cell_bytes(uint32_t lds_bytes) { return (lds_bytes / DWORD + 1) * sizeof(struct rpl_cell); }

struct rpl_group *rpl_group_create(struct rpl_checks *checks, uint32_t lds_bytes) {
  struct rpl_group *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->checks = checks;
  g->stored = -1;
  g->lds_bytes = lds_bytes;
  g->waves = checks->waves_per_group;
  g->lds = calloc(1, cell_bytes(lds_bytes));
  g->lds_initialised = malloc(lds_bytes / DWORD + 1);
  uint64_t lines = lds_bytes / DWORD / RPL_LINE_DWORDS + 1;
  g->lds_lines = calloc(lines, sizeof *g->lds_lines);
  g->lds_dwords = malloc(lines * RPL_LINE_DWORDS * sizeof *g->lds_dwords);
  g->skipped = malloc(checks->waves_per_group * sizeof *g->skipped);
  if (g->lds && g->lds_initialised && g->lds_lines && g->lds_dwords && g->skipped) return g;
  rpl_group_release(g);
  return NULL;
}

void rpl_group_start(struct rpl_group *g, uint32_t number, uint32_t lds_bytes) {
  g->number = number;
  g->passed = g->acquired = g->arrived_at = 0;
  if (!(uint16_t)++g->epoch) {
    memset(g->lds, 0, cell_bytes(g->lds_bytes));
    g->epoch++;
  }
  memset(g->lds_initialised, 0, lds_bytes / DWORD + 1);
  memset(g->skipped, 0, g->checks->waves_per_group * sizeof *g->skipped);
}

int rpl_group_fits(const struct rpl_group *g, const struct rpl_checks *checks, uint32_t lds_bytes) {
  return g->checks == checks && g->lds_bytes >= lds_bytes && g->waves >= checks->waves_per_group;
}

void rpl_group_release(struct rpl_group *g) {
  if (!g) return;
  free(g->lds);
  free(g->lds_initialised);
  free(g->lds_lines);
  free(g->lds_dwords);
  free(g->skipped);
  free(g);
}

void *rpl_shadow_map(uint64_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  madvise(p, bytes, MADV_HUGEPAGE);  // a shadow is many times as large as its buffer and accessed everywhere
  return p;
}

void rpl_shadow_unmap(void *p, uint64_t bytes) { munmap(p, bytes); }
