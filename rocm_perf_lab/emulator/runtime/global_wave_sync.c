// Global wave sync: barriers between the workgroups of a launch (RDNA2 ISA, DS_GWS_INIT and DS_GWS_BARRIER, whose encoding CDNA shares).
//
// A resource counts the wavefronts that have yet to arrive before the last one. The last one releases the others, which is a new
// generation of the resource, and its count of wavefronts is that of the next barrier.
#include <stddef.h>
#include "machine.h"

enum { RESOURCE_BITS = 6, RESOURCE_MASK = (1 << RESOURCE_BITS) - 1, M0_SHIFT = 16, GENERATION_SHIFT = 32, M0 = 124 };

static uint64_t *resource_of(const struct rpl_wave *w, uint32_t offset, uint32_t *number) {
  *number = ((w->sgpr[M0] >> M0_SHIFT) + offset) & RESOURCE_MASK;
  return w->machine->wave_syncs ? &w->machine->wave_syncs[*number] : NULL;
}

// Count of wavefronts, in the first active lane.
static uint32_t count_of(const struct rpl_wave *w, int row) {
  uint64_t exec = w->sgpr[126] | (uint64_t)w->sgpr[127] << 32;
  return w->vgpr[row][exec ? __builtin_ctzll(exec) : 0];
}

int rpl_gws_init(struct rpl_wave *w, int inst, int row, uint32_t offset) {
  uint32_t number;
  uint64_t *resource = resource_of(w, offset, &number);
  if (!resource) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, 0);
  uint64_t before = __atomic_load_n(resource, __ATOMIC_RELAXED), after;
  do {
    after = before >> GENERATION_SHIFT << GENERATION_SHIFT | count_of(w, row);
  } while (!__atomic_compare_exchange_n(resource, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return 0;
}

int rpl_gws_barrier(struct rpl_wave *w, int inst, int row, uint32_t offset) {
  uint32_t number;
  uint64_t *resource = resource_of(w, offset, &number);
  if (!resource) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, 0);
  uint64_t before = __atomic_load_n(resource, __ATOMIC_RELAXED), after;
  do {
    uint64_t generation = before >> GENERATION_SHIFT;
    after = (uint32_t)before ? before - 1 : (generation + 1) << GENERATION_SHIFT | count_of(w, row);
  } while (!__atomic_compare_exchange_n(resource, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  w->grid_barrier = number | (uint32_t)(before >> GENERATION_SHIFT) << RESOURCE_BITS;
  return 0;
}

int rpl_gws_released(const struct rpl_wave *w) {
  uint64_t now = __atomic_load_n(&w->machine->wave_syncs[w->grid_barrier & RESOURCE_MASK], __ATOMIC_ACQUIRE);
  return (uint32_t)(now >> GENERATION_SHIFT) << RESOURCE_BITS != (w->grid_barrier & ~(uint32_t)RESOURCE_MASK);
}
