// The timing engine: replays the traces of sampled wavefronts on a model of one compute unit.
// emulator/timing/structures.py mirrors these layouts.
#ifndef RPL_TIMING_H
#define RPL_TIMING_H
#include <stdint.h>

enum rpl_unit { RPL_UNIT_VALU, RPL_UNIT_SCALAR, RPL_UNIT_SMEM, RPL_UNIT_LOAD, RPL_UNIT_STORE, RPL_UNIT_LDS, RPL_UNIT_BRANCH,
                RPL_UNIT_WAIT, RPL_UNIT_BARRIER, RPL_UNIT_END, RPL_UNIT_INTERNAL, RPL_UNIT_MATRIX, RPL_UNIT_ATOMIC };

enum rpl_timed_flag {
  RPL_F_CONSTANT = 1,       // reads an SGPR, a constant or a literal: only one such vector instruction per SIMD and slot
  RPL_F_EXCLUSIVE = 2,      // reads more registers than two wavefronts can together: never issues beside another one
  RPL_F_WRITES_SGPR = 4,    // a vector instruction with a scalar result
  RPL_F_LDS_WRITE = 8,
  RPL_F_TO_LDS = 16,        // a vector load into LDS
  RPL_F_RETURNS = 32,       // an atomic that returns the old value
  RPL_F_BYPASSES_L1 = 64,   // a load that must not read L1 (sc1, nt)
  RPL_F_INVALIDATES_L1 = 128,
};

// One instruction of the program.
struct rpl_timed_instruction {
  uint32_t unit;              // enum rpl_unit
  uint32_t flags;             // enum rpl_timed_flag
  uint32_t cycles;            // for which it occupies its pipe (VALU, matrix) or the wavefront
  uint32_t issue_cycles;      // until the wavefront can issue its next instruction
  int32_t vmcnt;              // of s_waitcnt; negative: no wait
  int32_t lgkmcnt;
  uint32_t size;              // bytes of the encoding
  uint32_t producer;          // instructions back, in this basic block, to the slow producer of an operand; 0: none
  uint32_t producer_cycles;   // from the issue of that producer
  uint32_t dwords;            // per lane, that an LDS instruction returns
  uint64_t address;
};

struct rpl_timed_block { uint32_t first, count; };

// Words of one wavefront (see wave.h); with stable addresses, whose bit 0 is set if other workgroups access the line.
struct rpl_timed_wave { const uint64_t *words; uint64_t count; };

// Where the lines that miss the vector L1 are found: parts of one, for the workgroups of one trace.
// `pending` lines are in L2 after another request has fetched them. Parts that are missing to one are in HBM. A store goes to memory
// when it replaces a dirty line.
struct rpl_line_sources { double load_l2, load_pending, load_mall, store_l2, store_mall, atomic_l2, atomic_mall; };

struct rpl_cu_parameters {
  uint32_t simds, barrier_cycles, branch_taken_cycles, branch_straddling_cycles;
  uint32_t scalar_cached_latency, scalar_latency, scalar_cold_latency, lds_latency, lds_write_latency;
  uint32_t l1_latency, l2_latency, mall_latency, dram_latency, store_latency, atomic_latency;
  uint32_t l1_lines, l1_ways, l2_lines, mall_lines;  // this CU's share of L2 and MALL, in lines of 128 bytes; only without sources
  uint32_t scalar_lines, instruction_lines;     // of 64 bytes
  uint32_t outstanding_lines;                   // in flight beyond L2
  uint32_t vector_queue, lds_queue_cycles, lds_issue_cycles;
  uint32_t valu_to_memory_cycles, valu_to_scalar_cycles, scalar_to_branch_cycles, matrix_to_wait_cycles;
  uint32_t fetch_block_cycles;                  // between two blocks of 32 bytes of one wavefront
  uint32_t first_fetch_cycles, wave_start_cycles, instruction_miss_cycles;
  uint32_t launch_cycles, replace_cycles;       // between two workgroups on this CU; from the end of one to its replacement
  uint32_t tlb_entries, tlb_page_shift, tlb_miss_cycles, tlb_cold_cycles;
  uint32_t l2_burst_cycles;                     // of work of its share of L2 that an idle CU can take at once
  uint32_t store_cycles;                        // minimum time of a store in the address pipe
  double lds_write_factor;                      // pipe clocks of an LDS write per clock of a read
  double l2_port_bytes;                         // per clock, from L2 to one CU
  double l2_bytes, mall_bytes, mall_write_bytes, dram_bytes, dram_write_bytes;  // per clock, this CU's share
};

// Sums over all wavefronts in clocks unless stated. `level_` sums are integrals of the number of instructions in flight.
struct rpl_cu_counters {
  double cycles, wave_cycles, busy_cycles, wait_cycles, wait_issue_cycles, wait_lds_cycles;
  double active_valu, active_matrix, active_scalar, active_vector_memory, active_lds, active_other;
  double valu_busy_cycles, matrix_busy_cycles, address_busy_cycles, lds_busy_cycles;
  double level_vector_memory, level_lds, level_scalar_memory, level_fetch;
  double l1_lookups, l1_hits, l1_wait_cycles, l1_queue_cycles;
  double l2_reads, l2_writes, l2_atomics_returning, l2_atomics, l2_hits, l2_misses;  // reads of 128, writes of 64 bytes
  double dram_reads, dram_writes;
  double memory_instructions, fetches, instruction_hits, instruction_misses, scalar_requests, scalar_hits, scalar_misses;
  double tlb_requests, tlb_hits, tlb_misses;
};

// One executed instruction: first attempt to issue, issue, and time at which the wavefront could continue.
struct rpl_event { double attempt, issued, done; uint64_t inst; };

// Lifetime of one wavefront; `slot` is its place on the SIMD.
struct rpl_traced_wave {
  struct rpl_event *events; uint64_t count, capacity;
  double begin, end;
  uint32_t simd, slot;
};

struct rpl_thread_trace {
  struct rpl_traced_wave *waves;                // [workgroup][wave], out
  uint32_t workgroups;                          // number of traced workgroups
  uint32_t is_short_of_memory;                  // out
};

struct rpl_cu_run {
  const struct rpl_timed_instruction *instructions;
  const struct rpl_timed_block *blocks;
  const struct rpl_timed_wave *waves;           // [trace][wave]
  const struct rpl_line_sources *sources;       // [trace]; NULL: model the CU's share of L2 and MALL as LRU caches
  const uint32_t *order;                        // [workgroup]: trace that it runs
  uint32_t traces, waves_per_workgroup;
  uint32_t workgroups;                          // to run on this CU
  uint32_t resident;                            // maximum number at once
  const struct rpl_cu_parameters *cu;
  double *begin_cycles, *finish_cycles;         // [workgroup], out
  uint64_t *hits;                               // [instruction], out
  // [instruction], out. Latency includes the stall before the issue; idle is the gap before the first attempt.
  double *latency_cycles, *stall_cycles, *idle_cycles;
  struct rpl_cu_counters *counters;             // out
  struct rpl_thread_trace *thread_trace;        // NULL: none
};

int rpl_time_compute_unit(const struct rpl_cu_run *run);  // returns 1 if memory is short or a trace does not match
void rpl_thread_trace_free(struct rpl_thread_trace *trace, uint64_t waves);
// Sets *end to the end of the last of `count` tasks that start in order on the first of `slots` to be free. Returns 1 if memory is short.
int rpl_makespan(const double *durations, uint64_t count, uint64_t slots, double *end);
#endif
