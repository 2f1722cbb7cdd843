// Checks beyond those of a GPU: races, uninitialised reads, barriers that lanes skip, misaligned accesses.
// If disabled, wave->group is NULL and only that is tested. If enabled, the launch runs on one thread for reproducible findings.
#ifndef RPL_CHECKS_H
#define RPL_CHECKS_H
#include "machine.h"

enum rpl_check_kind {
  RPL_CHECK_LDS_RACE, RPL_CHECK_MEMORY_RACE, RPL_CHECK_LDS_UNINITIALISED, RPL_CHECK_MEMORY_UNINITIALISED,
  RPL_CHECK_BARRIER, RPL_CHECK_ALIGNMENT, RPL_CHECK_SAME_VALUE,
  RPL_CHECK_POSSIBLE_RACE, RPL_CHECK_KINDS
};

// Kind of an access, with stores as the largest value. Plain accesses race with all that write,
// coherent ones (atomic, or marked as coherent with other workgroups) only with plain ones.
enum rpl_touch_kind { RPL_PLAIN_LOAD, RPL_COHERENT_LOAD, RPL_COHERENT_STORE, RPL_PLAIN_STORE };

// Properties of an instruction: marked as coherent with other workgroups; an atomic that replaces memory and returns nothing;
// not marked, but may be atomic (gfx90a) for its workgroup or for all; a compare-and-swap; an atomic that returns what it replaces.
enum rpl_access_trait {
  RPL_COHERENT = 1, RPL_ONLY_WRITES = 2, RPL_MAY_BE_ATOMIC_IN_GROUP = 4, RPL_MAY_BE_ATOMIC = 8, RPL_COMPARES = 16,
  RPL_RETURNS = 32
};

// One access to a dword. `wave` counts from 1 over the whole launch; 0 means no access.
struct rpl_touch {
  uint32_t wave, time;         // time: barriers, fences and atomics that return a value, of the whole launch, before it
  uint32_t inst : 26, bytes : 4, kind : 2;  // bytes of the dword
};

// Accesses to a dword with which a later one may still race; the first `used` entries are valid. Two of each kind are
// kept, of different wavefronts: the next wavefront is at most one of them.
enum { RPL_CELL_PLACES = 5 };
struct rpl_cell {
  struct rpl_touch touches[RPL_CELL_PLACES];
  uint8_t used, is_shared;     // is_shared: unsynchronised stores met here, all of the same value so far
  uint16_t epoch;              // of the launch or workgroup that last used it; of another one, the cell is empty
};

struct rpl_finding {
  uint32_t kind, access, width_bytes;
  int32_t inst, other_inst;    // other_inst: of the other access of a race, or -1
  uint64_t lanes, address;     // address of the first of these lanes; at a barrier: lanes that skipped it, or 0
  uint64_t detail;             // resume point behind a barrier
  uint32_t workgroup[3], wave;
  uint32_t other_wave;         // counted like rpl_touch.wave
  uint32_t padding;
};

enum { RPL_MEETING_BYTES = 48 };

struct rpl_wave;
struct rpl_line;               // short_cells.h
struct rpl_short_cell;
// Shadow of one piece of memory, for a driver whose shadow is sparse.
struct rpl_place {
  uint64_t begin, end;
  struct rpl_cell *cells;      // of the dword with `begin`; NULL: races are not checked
  struct rpl_line *lines;      // of the page with `begin`, which contains the piece; NULL: all accesses are kept in cells
  struct rpl_short_cell *dwords;  // likewise
  uint8_t *initialised;        // likewise
  uint32_t is_bad;             // no access is right: accesses are passed to `bad`
  uint32_t is_saved;           // the first store (or read of uninitialised bytes) is passed to `save`, which sets this
};
// Consecutive lanes that access consecutive memory, or the same. The CPU loads few of them at once by itself.
enum { RPL_FEW_RUNS = 4 };
struct rpl_run { uint64_t begin, end, lanes; };
struct rpl_shadow {
  struct rpl_place last;
  void (*find)(struct rpl_shadow *s, uint64_t address);  // makes `last` contain the address
  void (*save)(struct rpl_shadow *s, uint64_t address);  // before the content of `last` changes
  void (*expect)(const struct rpl_shadow *s, const struct rpl_run *runs, int count);  // moves what is known of scattered runs to the CPU's cache
  // Lanes that access LDS out of range; they continue as on a GPU. NULL: this is a fault.
  void (*bad_lds)(struct rpl_shadow *s, const struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint32_t *address, uint32_t width);
  void (*bad)(struct rpl_shadow *s, const struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
};

struct rpl_checks {
  uint64_t enabled;            // bit per rpl_check_kind
  const uint8_t *traits;       // [instruction]: enum rpl_access_trait
  uint8_t *reported;           // [instruction]: bit per kind
  struct rpl_cell **cells;     // [allocation]: [dword], or NULL without checks of races
  uint8_t **initialised;       // [allocation]: [dword], a bit per byte; NULL if all bytes are
  uint32_t *released;          // [workgroup]: time of its last release fence
  struct rpl_finding *findings;
  uint64_t finding_count, finding_capacity;
  uint64_t meeting;            // block of RPL_MEETING_BYTES at which workgroups of a cooperative launch meet; 0: none
  uint32_t clock;
  uint32_t waves_per_group;
  uint32_t one_barrier;        // any two barriers match, as in assembly
  uint32_t unseen_releases;    // releases have no instruction (gfx90a): an acquire orders everything before it
  struct rpl_shadow *shadow;   // instead of `cells` and `initialised`; or NULL
  uint64_t epoch;              // of cells in memory
  void *touched;               // NULL, or receives all accesses to memory through `note`; kind: enum rpl_touch_kind; at most RPL_LANES runs
  void (*note)(void *touched, uint32_t kind, int access, int only_writes, const struct rpl_run *runs, int count);
};

// Lanes that were inactive at the last barrier of a wavefront, and the resume point behind it.
struct rpl_skipped { uint64_t lanes; uint32_t resume, padding; };

// One resident workgroup.
struct rpl_group {
  struct rpl_checks *checks;
  uint32_t number, passed, acquired;  // passed: time of the last completed barrier; acquired: of the last fence
  uint32_t arrived_at;         // resume point behind the barrier of the first waiting wavefront
  struct rpl_cell *lds;        // [dword]
  struct rpl_line *lds_lines;
  struct rpl_short_cell *lds_dwords;
  uint8_t *lds_initialised;    // [dword], a bit per byte
  struct rpl_skipped *skipped; // [wavefront]
  uint32_t epoch;              // of cells in LDS
  uint32_t lds_bytes, waves;   // for which there is a shadow
  int stored, stored_kind;     // of the next store to check: row of its data and enum rpl_kind; -1 if unknown
};

// Sets the data of the next store to check.
static inline void rpl_checked_store(struct rpl_wave *w, int data, int kind) {
  if (!w->group) return;
  w->group->stored = data;
  w->group->stored_kind = kind;
}

// Zeroed memory that is only allocated on access; NULL if there is none.
void *rpl_shadow_map(uint64_t bytes);
void rpl_shadow_unmap(void *p, uint64_t bytes);

struct rpl_group *rpl_group_create(struct rpl_checks *checks, uint32_t lds_bytes);
void rpl_group_start(struct rpl_group *g, uint32_t number, uint32_t lds_bytes);
// Whether a workgroup of a launch with these checks can use the shadow of an earlier one.
int rpl_group_fits(const struct rpl_group *g, const struct rpl_checks *checks, uint32_t lds_bytes);
void rpl_group_release(struct rpl_group *g);

// Vector accesses work at any address; scalar loads ignore the two lowest bits and return other data.
void rpl_checked_scalar_alignment(struct rpl_wave *w, int inst, uint64_t address, uint32_t width);
void rpl_checked_memory(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
void rpl_checked_lds(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint32_t *address, uint32_t width);
// Reports lanes that access LDS out of range, and makes their loads return zero and drops their stores. Returns 0 if this is a fault instead.
int rpl_checked_lds_range(struct rpl_wave *w, int inst, int access, uint64_t lanes, uint32_t *address, uint32_t width);
// A wavefront stops at a barrier, or all that are alive have arrived.
void rpl_checked_arrival(struct rpl_wave *w);
void rpl_checked_barrier(struct rpl_group *g);
#endif
