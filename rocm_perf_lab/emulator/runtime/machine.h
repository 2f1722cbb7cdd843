// Shared by the memory runtime and the scheduler: allocations, faults, counters of one thread, one launch.
// emulator/structures.py mirrors these layouts; a test compares both through rpl_layout().
#ifndef RPL_MACHINE_H
#define RPL_MACHINE_H
#include "wave.h"

enum rpl_fault_kind {
  RPL_FAULT_NONE, RPL_FAULT_MEMORY, RPL_FAULT_MISALIGNED, RPL_FAULT_LDS, RPL_FAULT_SCRATCH, RPL_FAULT_BUDGET,
  RPL_FAULT_BARRIER, RPL_FAULT_ILLEGAL, RPL_FAULT_UNSUPPORTED, RPL_FAULT_HOST_MEMORY,
  RPL_FAULT_TRAP, RPL_FAULT_HOST_CALL, RPL_FAULT_STOPPED
};
enum rpl_access { RPL_LOAD, RPL_STORE, RPL_ATOMIC };

// Upper 32 bits of flat addresses of LDS and scratch (SRC_SHARED_BASE and SRC_PRIVATE_BASE), outside of host
// mappings.
enum { RPL_LDS_APERTURE = 0x7fff0000, RPL_SCRATCH_APERTURE = 0x7ffe0000, RPL_APERTURE_SHIFT = 32 };

// Pages of a part of device memory during a launch whose workgroups may run a second time; see rewind.h.
struct rpl_pages {
  uint64_t first, count;   // page number (address / RPL_PAGE_BYTES) of state[0], pages
  uint8_t *state;          // enum rpl_page_state
  uint8_t *before, *after; // [count][RPL_PAGE_BYTES]
  const uint8_t *image;    // content before the launch of the first `image_pages` pages, which `before` then lacks
  uint64_t image_pages;
};
enum rpl_run_number { RPL_ONLY_RUN, RPL_FIRST_RUN, RPL_SECOND_RUN };

enum rpl_life { RPL_LIVE, RPL_FREED, RPL_READ_ONLY /* live memory of the host that its own program cannot write */ };

// Device memory is identity-mapped: [begin, end) is a host address range too. Sorted by `begin`, no overlap.
struct rpl_allocation {
  uint64_t begin, end;
  uint64_t freed;         // enum rpl_life
  uint8_t *written;       // NULL, or one byte per page: set to 1 by every store to it
  uint64_t first_page;    // page number (address / RPL_PAGE_BYTES) of written[0]
  const struct rpl_pages *pages;  // NULL: this memory is not rewound
  uint8_t *filled;        // NULL, or one byte per page from first_page on: 0 until the first access calls fill(its address)
  void (*fill)(uint64_t page_address);
};
enum { RPL_PAGE_BYTES = 4096, RPL_WAVE_SYNCS = 64 };

struct rpl_fault {
  uint32_t kind;
  int32_t inst;           // index of the instruction, -1 if only the resume point is known
  uint32_t access;        // enum rpl_access
  uint32_t width_bytes;   // per lane
  uint64_t lanes;         // lanes with an invalid address
  uint64_t detail;        // resume point (budget, barrier, illegal), the size that was exceeded (LDS, scratch), 1: read-only (memory)
  uint32_t workgroup[3];
  uint32_t wave;
  uint64_t addresses[RPL_LANES];
};

struct rpl_checks;
struct rpl_footprint;

struct rpl_counters {
  uint64_t waves, partial_waves, work_items, workgroups;  // partial: fewer work-items than lanes
  uint64_t waves_below_48, waves_below_32, waves_below_16;
  uint64_t load_bytes, store_bytes, atomic_operations, lds_bytes;
  uint64_t flat_read_waves, flat_write_waves, flat_atomic_waves;
  uint64_t buffer_read_waves, buffer_write_waves, buffer_atomic_waves;
  uint64_t lds_active_cycles, lds_conflict_cycles;
  uint64_t read_accesses, write_accesses, atomic_accesses, returning_accesses;  // requests to the vector L1, see coalescing.h
  uint64_t l1_lookups, coalesced_waves;
  uint64_t write_segments, atomic_segments, returning_segments;                 // requests from the vector L1 to L2
  uint64_t span_bytes;                                    // sum over accesses: distance of first and last byte, limited
  uint64_t address_sum;                                   // of the lowest address of each access, modulo 2^64
};
enum { RPL_SPAN_LIMIT = 4096 };                           // 64 lanes in a segment of 64 bytes each

// Exact counts of one workgroup; emulator/execution.py has the same fields as a NumPy type.
struct rpl_workgroup_counts {
  uint64_t waves, instructions;
  uint64_t load_bytes, store_bytes, atomic_operations, lds_cycles, span_bytes, address_sum;
};

// One per thread; the allocations are shared and do not change during a launch, except through `miss`.
struct rpl_machine {
  const struct rpl_allocation *allocations;
  uint64_t allocation_count;
  uint64_t last_hit;
  uint64_t concurrent;    // other threads run the same launch: global atomics must be atomic on the host
  uint64_t run;           // enum rpl_run_number
  uint64_t has_half_lines;  // lines of the vector L1 have half of RPL_LINE_SHIFT's length
  struct rpl_fault fault;
  struct rpl_counters counters;
  struct rpl_footprint *footprint;  // NULL: accessed lines are not recorded
  // NULL, or returns 1 after it has changed the allocations, because an access was outside of them or writes read-only ones.
  int (*miss)(struct rpl_machine *m, uint64_t low, uint64_t high);
  void *owner;            // for `miss`
  uint64_t *wave_syncs;   // resources of global wave sync, shared by all threads of a GPU; NULL: the launch may not use them
};

typedef void (*rpl_kernel)(struct rpl_wave *);

// Host calls of a launch: a word that is set while a call waits, and the callback that answers it.
enum rpl_answer { RPL_NOTHING_ASKED, RPL_ANSWERED, RPL_NO_ANSWER /* the launch has to end */ };
struct rpl_host {
  const uint64_t *ready;                            // 0: no packet waits
  int (*answer)(const uint32_t workgroup[3], uint32_t wave);
};

// What a driver of whole applications adds to a launch.
struct rpl_arena;                                   // memory of resident workgroups, kept between launches
struct rpl_hooks {
  int (*take)(void *context, uint64_t *first, uint64_t *last);  // more workgroups to run; 0: there are no more
  void (*rest)(void *context);                      // all wavefronts sleep
  const int *stop;                                  // nonzero: the launch ends with RPL_FAULT_STOPPED
  void *context;
  struct rpl_arena *arena;                          // of this thread
};

struct rpl_launch {
  rpl_kernel kernel;
  uint64_t *block_executions, *block_active_lanes;  // of this thread
  const uint64_t *sampled;                          // ascending linear ids of the workgroups to trace
  uint64_t sampled_count;
  struct rpl_trace *traces;                         // [sampled_count][waves per workgroup]
  int64_t *budget;                                  // instructions left for the whole launch, all threads
  uint32_t grid[3], block[3];
  uint32_t remainder[3];                            // work-items of the last workgroup of an axis if partial, else 0
  uint32_t user_sgprs[32];
  uint32_t user_sgpr_count;
  uint32_t system_sgprs;                            // bits: workgroup id x, y, z, workgroup info, private wave offset
  uint32_t work_item_id_dims;                       // 0: x, 1: x y, 2: x y z
  uint32_t work_item_id_rows;                       // 1: all of them in VGPR0; else one VGPR each
  uint32_t wave_size;                               // 32 or 64
  uint32_t mode;
  uint32_t lds_bytes, lds_poison, lds_step;
  uint32_t scratch_bytes;                           // per work-item
  uint32_t vgpr_rows, agpr_rows;                    // rows that the kernel may read
  uint32_t slice_instructions;
  uint32_t resident_workgroups;                     // maximum number of workgroups resident on one thread
  uint32_t starts_together;                         // as many as that start before the first one continues
  struct rpl_checks *checks;                        // NULL: none
  const struct rpl_host *host;                      // NULL: the kernel does not call the host
  const uint64_t *chosen;                           // linear ids of the workgroups to run; NULL: all of the grid
  struct rpl_workgroup_counts *counts;              // [linear id], written at the end of a workgroup; or NULL
  uint64_t load_address;                            // of the code object: device address of its address 0
  const struct rpl_hooks *hooks;                    // NULL, or of a driver; then `take` says what to run
};

struct rpl_arena *rpl_arena_create(void);
// Frees all memory of an arena, and the arena.
void rpl_arena_free(struct rpl_arena *arena);

// Runs the workgroups [first, last) of `chosen`, or of the grid in linear order, x fastest. 0, or 1 with machine->fault filled.
int rpl_run(const struct rpl_launch *launch, struct rpl_machine *machine, uint64_t first, uint64_t last);

// Records a fault of `w` and returns 1. `addresses` may be NULL.
int rpl_raise(struct rpl_wave *w, int kind, int inst, int access, uint32_t width, uint64_t lanes,
              const uint64_t *addresses, uint64_t detail);
// Returns whether [low, high) is in one live allocation, and sets machine->last_hit to its index.
int rpl_find(struct rpl_machine *m, uint64_t low, uint64_t high);
// Called by translated code at an instruction without a translation.
int rpl_illegal(struct rpl_wave *w, int inst);
#endif
