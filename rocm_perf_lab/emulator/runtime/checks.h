// Checks that no GPU makes: races, reads of what nobody wrote, barriers that wavefronts miss, misaligned accesses.
// Off: wave->group is NULL and nothing but that is tested. On: the launch runs on one thread, so that findings repeat.
#ifndef RPL_CHECKS_H
#define RPL_CHECKS_H
#include "machine.h"

enum rpl_check_kind {
  RPL_CHECK_LDS_RACE, RPL_CHECK_MEMORY_RACE, RPL_CHECK_LDS_UNINITIALISED, RPL_CHECK_MEMORY_UNINITIALISED,
  RPL_CHECK_BARRIER, RPL_CHECK_ALIGNMENT, RPL_CHECK_SAME_VALUE, RPL_CHECK_KINDS
};

// What an access does, in an order in which it helps that a store is the strongest: plain accesses race with all that write,
// coherent ones (atomic, or marked as coherent with other workgroups) only with plain ones.
enum rpl_touch_kind { RPL_PLAIN_LOAD, RPL_COHERENT_LOAD, RPL_COHERENT_STORE, RPL_PLAIN_STORE };

// One access to a dword. `wave` counts from 1 over the whole launch, 0 means nobody.
struct rpl_touch {
  uint32_t wave, time;         // time: barriers and fences of the whole launch before it
  uint32_t inst : 26, bytes : 4, kind : 2;  // bytes of the dword
};

// Those of a dword's accesses that a later one may still race with; the first `used` places count. Of one kind two are
// kept, of different wavefronts: whoever comes next is at most one of them.
enum { RPL_CELL_PLACES = 5 };
struct rpl_cell {
  struct rpl_touch touches[RPL_CELL_PLACES];
  uint16_t used, is_shared;    // is_shared: stores that nothing orders have met here, all of the same value so far
};

struct rpl_finding {
  uint32_t kind, access, width_bytes;
  int32_t inst, other_inst;    // other_inst: of the access that this one races with, or -1
  uint64_t lanes, address;     // address of the first of these lanes
  uint64_t detail;             // resume point behind a barrier
  uint32_t workgroup[3], wave;
  uint32_t other_wave;         // counted like rpl_touch.wave
  uint32_t padding;
};

enum { RPL_MEETING_BYTES = 48 };

struct rpl_checks {
  uint64_t enabled;            // bit per rpl_check_kind
  const uint8_t *coherent;     // [instruction]
  uint8_t *reported;           // [instruction]: bit per kind
  struct rpl_cell **cells;     // [allocation]: [dword], or NULL where races do not matter
  uint8_t **initialised;       // [allocation]: [dword], a bit per byte; NULL where all of it is
  uint32_t *released;          // [workgroup]: time of its last release fence
  struct rpl_finding *findings;
  uint64_t finding_count, finding_capacity;
  uint64_t meeting;            // block of RPL_MEETING_BYTES at which workgroups of a cooperative launch meet; 0: none
  uint32_t clock;
  uint32_t waves_per_group;
  uint32_t one_barrier;        // any barrier meets any other, as in assembly, where they have no names
  uint32_t padding;
};

// One resident workgroup.
struct rpl_group {
  struct rpl_checks *checks;
  uint32_t number, passed, acquired;  // passed: time of the last barrier that all have passed; acquired: of the last fence
  uint32_t arrived_at;         // resume point behind the barrier that the first waiting wavefront waits at
  struct rpl_cell *lds;        // [dword]
  uint8_t *lds_initialised;    // [dword], a bit per byte
  int stored, stored_kind;     // of the store to be checked next: its data's row and enum rpl_kind; -1 where it is not known
};

// What the store that will be checked next stores.
static inline void rpl_checked_store(struct rpl_wave *w, int data, int kind) {
  if (!w->group) return;
  w->group->stored = data;
  w->group->stored_kind = kind;
}

struct rpl_group *rpl_group_create(struct rpl_checks *checks, uint32_t lds_bytes);
void rpl_group_start(struct rpl_group *g, uint32_t number, uint32_t lds_bytes);
void rpl_group_release(struct rpl_group *g);

void rpl_checked_memory(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
void rpl_checked_lds(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint32_t *address, uint32_t width);
// A wavefront stops at a barrier, or all have arrived; `missing`: wavefronts that ended without it.
void rpl_checked_arrival(struct rpl_wave *w);
void rpl_checked_barrier(struct rpl_wave *w, uint32_t missing);
#endif
