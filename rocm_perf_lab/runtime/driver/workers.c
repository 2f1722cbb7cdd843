// Memory that each thread keeps between the dispatches that it runs: a launch of a small kernel must not allocate.
#include "workers.h"

#include <stdlib.h>
#include <string.h>

#include "device_checks.h"

enum { PROBE_WORDS = 3 };         // as in emulator/probes.py

static _Thread_local struct worker *mine;

struct worker *drv_worker(void) {
  if (mine) return mine;
  struct worker *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->arena = rpl_arena_create();
  if (!made->arena) {
    free(made);
    return NULL;
  }
  mine = made;
  return mine;
}

static int reserve(uint64_t **words, uint64_t *capacity, uint64_t wanted) {
  if (wanted > *capacity) {
    free(*words);
    *capacity = 0;
    *words = malloc(wanted * sizeof **words);
    if (!*words) return 0;
    *capacity = wanted;
  }
  memset(*words, 0, wanted * sizeof **words);
  return 1;
}

int drv_worker_prepare(struct worker *worker, const struct drv_kernel *kernel) {
  uint64_t words = kernel->block_count + (uint64_t)PROBE_WORDS * kernel->probe_count;  // the probes follow the blocks
  if (!reserve(&worker->executions, &worker->words, words + 1)) return 0;
  if (!reserve(&worker->active_lanes, &worker->lanes, kernel->block_count + 1ull)) return 0;
  drv_view_has(&worker->view, 0, 0);  // renews it
  struct rpl_machine *machine = &worker->view.machine;
  machine->concurrent = 1;        // with other threads, queues and the host
  machine->run = RPL_ONLY_RUN;
  machine->footprint = NULL;
  machine->fault.kind = RPL_FAULT_NONE;
  memset(&machine->counters, 0, sizeof machine->counters);
  return 1;
}

static void add_counters(struct rpl_counters *to, const struct rpl_counters *from) {
  enum { COUNTERS = sizeof *to / sizeof(uint64_t) };
  for (int k = 0; k < COUNTERS; k++) ((uint64_t *)to)[k] += ((const uint64_t *)from)[k];
}

static void add_words(uint64_t *to, const uint64_t *from, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) to[k] += from[k];
}

void drv_sums_add(struct drv_sums *sums, const struct worker *from, const struct drv_kernel *kernel) {
  add_counters(&sums->counters, &from->view.machine.counters);
  if (!sums->executions) sums->executions = calloc(2ull * kernel->block_count + 1, sizeof *sums->executions);
  if (!sums->executions) return;  // the counts are then those of the other threads
  sums->active_lanes = sums->executions + kernel->block_count;
  add_words(sums->executions, from->executions, kernel->block_count);
  add_words(sums->active_lanes, from->active_lanes, kernel->block_count);
}

void drv_sums_take(struct drv_sums *sums, struct worker *to, const struct drv_kernel *kernel) {
  add_counters(&to->view.machine.counters, &sums->counters);
  if (!sums->executions) return;
  add_words(to->executions, sums->executions, kernel->block_count);
  add_words(to->active_lanes, sums->active_lanes, kernel->block_count);
  free(sums->executions);
}

void drv_worker_free(void) {
  if (!mine) return;
  rpl_arena_free(mine->arena);
  drv_view_drop(&mine->view);
  drv_checked_free(mine->checked);
  free(mine->executions);
  free(mine->active_lanes);
  free(mine);
  mine = NULL;
}
