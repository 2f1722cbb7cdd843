// Does a dispatch depend on uninitialised memory? It runs again with other content of that memory, as emulator/unused_reads.py does for
// single kernels. Correct kernels read such memory too: they copy padding, or load a whole tile and use a part of it.
//
// Every byte of a content is the same. So a byte of a result that is that of the content in all runs is a copy of an uninitialised byte:
// it becomes uninitialised itself. Any other byte that changes was computed from one, which is a defect.
#include <stdlib.h>
#include <string.h>

#include "device_checks.h"

enum { DWORD = 4, PROBE_WORDS = 3 /* as in emulator/probes.py */, EXTRA_INSTRUCTIONS = 1 << 20, BUDGET_FACTOR = 4 };
static const uint8_t CONTENTS[] = {0x00, 0xff, 0x55, 0x3f, 0x7f, 0x80};  // as integers and floats: zero, large, small, negative
enum { RUNS = sizeof CONTENTS, NO_CONTENT = -1 };

struct rerun {
  uint64_t next, workgroups;
  struct rpl_hooks hooks;
  struct rpl_launch launch;
  int64_t budget, first_budget;
  uint64_t *counts;
};

static int take(void *context, uint64_t *first, uint64_t *last) {
  struct rerun *r = context;
  if (r->next >= r->workgroups) return 0;
  *first = r->next++;
  *last = r->next;
  return 1;
}

static void rest(void *context) { (void)context; }

static int is_initialised(const struct drv_saved *s, const uint8_t *shadow, uint64_t address) {
  return !shadow || shadow[address / DWORD - s->begin / DWORD] >> address % DWORD & 1;
}

// Restores memory to what it was before the dispatch, with a content of what was uninitialised.
static void rewind_to_start(const struct drv_checked *c, int content) {
  for (uint64_t k = 0; k < c->saved_count; k++) {
    const struct drv_saved *s = &c->saved[k];
    memcpy((void *)s->begin, s->before, s->end - s->begin);
    if (content == NO_CONTENT || !s->was_initialised) continue;
    for (uint64_t at = s->begin; at < s->end; at++)
      if (!is_initialised(s, s->was_initialised, at)) *(uint8_t *)at = (uint8_t)content;
  }
}

// Returns whether the dispatch ended as before.
static int run_again(struct drv_checked *c, struct rerun *r, struct rpl_machine *machine, int content) {
  rewind_to_start(c, content);
  r->next = 0;
  r->budget = r->first_budget;
  if (content != NO_CONTENT) r->launch.lds_poison = (uint32_t)content * 0x01010101u;
  drv_shadow_leave(c);
  memset(&machine->fault, 0, offsetof(struct rpl_fault, addresses));
  int failed = rpl_run(&r->launch, machine, 0, 0);
  return !failed && !c->is_out_of_reach;
}

// Of each saved byte: in how many runs it was the content of the run, and whether it changed. Bits of one byte.
enum { CHANGED = 0x80 };

static int is_equal(const struct drv_checked *c, uint64_t places) {
  for (uint64_t k = 0; k < places; k++)
    if (memcmp((const void *)c->saved[k].begin, c->saved[k].after, c->saved[k].end - c->saved[k].begin) != 0) return 0;
  return 1;
}

static void compare(const struct drv_checked *c, uint64_t places, uint8_t *marks, uint8_t content) {
  for (uint64_t k = 0; k < places; k++) {
    const struct drv_saved *s = &c->saved[k];
    for (uint64_t at = s->begin; at < s->end; at++, marks++) {
      uint8_t now = *(const uint8_t *)at;
      if (now == content) ++*marks;
      if (now != s->after[at - s->begin]) *marks |= CHANGED;
    }
  }
}

// Returns whether a byte was computed from uninitialised ones; copies of them become uninitialised.
static int judge(const struct drv_checked *c, uint64_t places, const uint8_t *marks) {
  for (uint64_t k = 0; k < places; k++) {
    const struct drv_saved *s = &c->saved[k];
    for (uint64_t at = s->begin; at < s->end; at++, marks++) {
      if (!(*marks & CHANGED) || !is_initialised(s, s->initialised, at)) continue;
      if ((*marks & ~CHANGED) != RUNS || !s->initialised) return 1;
      s->initialised[at / DWORD - s->begin / DWORD] &= (uint8_t)~(1u << at % DWORD);
    }
  }
  return 0;
}

static int compare_runs(struct drv_checked *c, struct rerun *r, struct rpl_machine *machine, uint64_t places, uint8_t *marks) {
  for (int k = 0; k < RUNS; k++) {
    if (!run_again(c, r, machine, CONTENTS[k])) return 1;  // a fault, an endless loop, a store to somewhere else
    compare(c, places, marks, CONTENTS[k]);
  }
  return judge(c, places, marks);
}

static int decide(struct drv_checked *c, struct rerun *r, struct rpl_machine *machine) {
  uint64_t bytes = 0, places = c->saved_count;
  for (uint64_t k = 0; k < places; k++) {
    memcpy(c->saved[k].after, (const void *)c->saved[k].begin, c->saved[k].end - c->saved[k].begin);
    bytes += c->saved[k].end - c->saved[k].begin;
  }
  uint8_t *marks = calloc(1, bytes + 1);
  // A dispatch that does not repeat itself depends on the host or on another queue; nothing is known about it.
  int depends = marks && run_again(c, r, machine, NO_CONTENT) && is_equal(c, places) && compare_runs(c, r, machine, places, marks);
  free(marks);
  for (uint64_t k = places; k < c->saved_count; k++)  // what only these runs changed
    memcpy((void *)c->saved[k].begin, c->saved[k].before, c->saved[k].end - c->saved[k].begin);
  for (uint64_t k = 0; k < places; k++) memcpy((void *)c->saved[k].begin, c->saved[k].after, c->saved[k].end - c->saved[k].begin);
  return depends;
}

int drv_depends_on_uninitialised(struct drv_checked *c, const struct rpl_launch *launch, struct rpl_machine *machine, uint64_t instructions) {
  if (c->is_out_of_reach) return 0;
  const struct drv_kernel *kernel = c->of->kernel;
  uint64_t words = kernel->block_count + (uint64_t)PROBE_WORDS * kernel->probe_count + 1;
  struct rerun r = {.workgroups = c->workgroups, .launch = *launch, .counts = calloc(words + kernel->block_count + 1, sizeof *r.counts)};
  if (!r.counts) return 0;
  const struct rpl_counters counters = machine->counters;
  struct rpl_footprint *footprint = machine->footprint;
  r.first_budget = (int64_t)(instructions * BUDGET_FACTOR + EXTRA_INSTRUCTIONS);
  r.hooks = (struct rpl_hooks){take, rest, launch->hooks->stop, &r, launch->hooks->arena};
  r.launch.hooks = &r.hooks;
  r.launch.budget = &r.budget;
  r.launch.block_executions = r.counts;
  r.launch.block_active_lanes = r.counts + words;
  r.launch.sampled_count = 0;
  r.launch.counts = NULL;
  machine->footprint = NULL;
  uint64_t enabled = c->checks.enabled;
  c->checks.enabled = 0;
  c->is_rerun = 1;
  int depends = decide(c, &r, machine);
  c->is_rerun = 0;
  c->checks.enabled = enabled;
  machine->counters = counters;
  machine->footprint = footprint;
  machine->fault.kind = RPL_FAULT_NONE;
  free(r.counts);
  return depends;
}
