// The short form has to decide like the cells in checks.c wherever it decides.
#include "short_cells.h"

#include <string.h>

enum { WAVE_BITS = 24, TIME_BITS = 24, INST_BITS = 15, ALL_BYTES = 15 };
#define COHERENT (1ull << INST_BITS)
#define TIME_SHIFT (INST_BITS + 1)
#define WAVE_SHIFT (TIME_SHIFT + TIME_BITS)
#define KNOWN_SHIFT INST_BITS  // entries that are equal above this differ in the instruction only

static uint32_t wave_of(rpl_access_entry e) { return (uint32_t)(e >> WAVE_SHIFT); }
static uint32_t time_of(rpl_access_entry e) { return (uint32_t)(e >> TIME_SHIFT) & ((1u << TIME_BITS) - 1); }

struct rpl_short_access rpl_short_access_of(const struct rpl_group *g, const struct rpl_touch *touch, int is_lds) {
  enum { IN_CELL = RPL_MAY_BE_ATOMIC_IN_GROUP | RPL_MAY_BE_ATOMIC | RPL_COMPARES | RPL_RETURNS };
  uint32_t waves = g->checks->waves_per_group;
  struct rpl_short_access a = {.kind = touch->kind, .wave = touch->wave, .first_wave = g->number * waves + 1, .waves = waves, .passed = g->passed,
                               .epoch = is_lds ? g->epoch : (uint16_t)g->checks->epoch, .is_lds = is_lds};
  int fits = touch->wave >> WAVE_BITS == 0 && touch->time >> TIME_BITS == 0 && touch->inst >> INST_BITS == 0;
  int is_coherent = touch->kind == RPL_COHERENT_LOAD || touch->kind == RPL_COHERENT_STORE;
  if (fits && !(g->checks->traits[touch->inst] & IN_CELL))
    a.entry = (uint64_t)touch->wave << WAVE_SHIFT | (uint64_t)touch->time << TIME_SHIFT | (is_coherent ? COHERENT : 0) | touch->inst;
  return a;
}

// ---- one dword ----

static int passed_barrier(const struct rpl_short_access *a, rpl_access_entry e) {
  return wave_of(e) - a->first_wave < a->waves && time_of(e) < a->passed;
}

static int is_ordered(const struct rpl_short_access *a, rpl_access_entry e) { return !e || wave_of(e) == a->wave || passed_barrier(a, e); }

static int add_load(struct rpl_short_cell *c, const struct rpl_short_access *a) {
  rpl_access_entry x = a->entry, first = c->loads[0], second = c->loads[1];
  for (int k = 0; k < 2; k++)
    if (!is_ordered(a, c->stores[k]) && !(a->kind == RPL_COHERENT_LOAD && c->stores[k] & COHERENT)) return 0;
  if (!((first ^ x) >> KNOWN_SHIFT) || !((second ^ x) >> KNOWN_SHIFT)) return 1;
  if ((first && (first ^ x) & COHERENT) || (second && (second ^ x) & COHERENT)) return 0;
  if (wave_of(first) != a->wave) c->loads[1] = first;
  c->loads[0] = x;
  return 1;
}

static int add_store(struct rpl_short_cell *c, const struct rpl_short_access *a) {
  for (int k = 0; k < 2; k++)
    if (!is_ordered(a, c->stores[k]) || !is_ordered(a, c->loads[k])) return 0;
  *c = (struct rpl_short_cell){.stores = {a->entry}};
  return 1;
}

// What every later access is ordered behind may be dropped: in LDS what is in front of a barrier.
static int is_needed(const struct rpl_short_access *a, rpl_access_entry e) {
  return e && !(wave_of(e) == a->wave && e & COHERENT) && !(a->is_lds && passed_barrier(a, e));
}

static int add_coherent_store(struct rpl_short_cell *c, const struct rpl_short_access *a) {
  for (int k = 0; k < 2; k++)
    if ((!(c->stores[k] & COHERENT) && !is_ordered(a, c->stores[k])) || (!(c->loads[k] & COHERENT) && !is_ordered(a, c->loads[k]))) return 0;
  int keeps_first = is_needed(a, c->stores[0]), keeps_second = is_needed(a, c->stores[1]);
  if (keeps_first && keeps_second && !(c->stores[0] & c->stores[1] & COHERENT)) return 0;
  c->stores[1] = keeps_first ? c->stores[0] : keeps_second ? c->stores[1] : 0;
  c->stores[0] = a->entry;
  return 1;
}

static int add(struct rpl_short_cell *c, const struct rpl_short_access *a) {
  if (c->stores[0] == RPL_IN_CELL) return 0;
  switch (a->kind) {
    case RPL_PLAIN_STORE: return add_store(c, a);
    case RPL_COHERENT_STORE: return add_coherent_store(c, a);
    default: return add_load(c, a);
  }
}

static int is_same(const struct rpl_short_cell *a, const struct rpl_short_cell *b) {
  return !((a->stores[0] ^ b->stores[0]) | (a->stores[1] ^ b->stores[1]) | (a->loads[0] ^ b->loads[0]) | (a->loads[1] ^ b->loads[1]));
}

// Adds an access to dwords of one line; most of them have the same entries.
static int add_to_each(struct rpl_short_cell *c, uint64_t count, const struct rpl_short_access *a) {
  struct rpl_short_cell before = c[0];
  if (!add(&c[0], a)) return 0;
  for (uint64_t k = 1; k < count; k++) {
    if (is_same(&c[k], &before)) {
      c[k] = c[k - 1];
      continue;
    }
    before = c[k];
    if (!add(&c[k], a)) return 0;
  }
  return 1;
}

// ---- lines ----

static void renew(struct rpl_line *line, uint32_t epoch) {
  if (line->epoch != epoch) *line = (struct rpl_line){.epoch = epoch};
}

// Gives dwords of a line own entries.
static void split(struct rpl_line *line, struct rpl_short_cell *dwords, uint64_t first, uint64_t count) {
  uint32_t wanted = ((1u << count) - 1) << first & ~line->apart;
  line->apart |= wanted;
  for (; wanted; wanted &= wanted - 1) dwords[__builtin_ctz(wanted)] = line->all;
}

int rpl_short_add(struct rpl_line *lines, struct rpl_short_cell *dwords, uint64_t first, uint64_t count, const struct rpl_short_access *a) {
  if (!a->entry) return 0;
  for (uint64_t end = first + count; first < end;) {
    struct rpl_line *line = &lines[first / RPL_LINE_DWORDS];
    uint64_t in_line = first % RPL_LINE_DWORDS, room = RPL_LINE_DWORDS - in_line, part = end - first < room ? end - first : room;
    renew(line, a->epoch);
    if (part == RPL_LINE_DWORDS && !line->apart) {
      if (!add(&line->all, a)) return 0;
    } else {
      split(line, dwords + first - in_line, in_line, part);
      if (!add_to_each(dwords + first, part, a)) return 0;
    }
    first += part;
  }
  return 1;
}

void rpl_short_expand(struct rpl_line *lines, struct rpl_short_cell *dwords, uint64_t dword, uint32_t epoch, struct rpl_cell *cell) {
  struct rpl_line *line = &lines[dword / RPL_LINE_DWORDS];
  renew(line, epoch);
  split(line, dwords + dword / RPL_LINE_DWORDS * RPL_LINE_DWORDS, dword % RPL_LINE_DWORDS, 1);
  struct rpl_short_cell *c = &dwords[dword];
  if (c->stores[0] == RPL_IN_CELL) return;
  const rpl_access_entry entries[] = {c->stores[1], c->stores[0], c->loads[1], c->loads[0]};
  cell->used = cell->is_shared = 0;
  cell->epoch = (uint16_t)epoch;
  for (uint32_t k = 0; k < sizeof entries / sizeof *entries; k++) {
    rpl_access_entry e = entries[k];
    if (!e) continue;
    uint32_t coherent = (e & COHERENT) != 0, plain_kind = k < 2 ? RPL_PLAIN_STORE : RPL_PLAIN_LOAD, kind = k < 2 ? RPL_COHERENT_STORE : RPL_COHERENT_LOAD;
    cell->touches[cell->used++] = (struct rpl_touch){.wave = wave_of(e), .time = time_of(e), .inst = (uint32_t)(e & (COHERENT - 1)),
                                                     .bytes = ALL_BYTES, .kind = coherent ? kind : plain_kind};
  }
  c->stores[0] = RPL_IN_CELL;
}
