// The timing engine: replays the traces of sampled wavefronts on a model of one compute unit.
// emulator/timing/structures.py mirrors these layouts.
#ifndef RPL_TIMING_H
#define RPL_TIMING_H
#include <stdint.h>

enum rpl_unit { RPL_UNIT_VALU, RPL_UNIT_SCALAR, RPL_UNIT_SMEM, RPL_UNIT_LOAD, RPL_UNIT_STORE, RPL_UNIT_LDS, RPL_UNIT_BRANCH,
                RPL_UNIT_WAIT, RPL_UNIT_BARRIER, RPL_UNIT_END, RPL_UNIT_INTERNAL };

// One instruction of the program.
struct rpl_timed_instruction {
  uint32_t unit;      // enum rpl_unit
  uint32_t cycles;    // for which it occupies its unit (VALU) or the wavefront
  int32_t vmcnt;      // of s_waitcnt; negative: no wait
  int32_t lgkmcnt;
  uint32_t bytes;     // per active lane, for memory instructions
};

struct rpl_timed_block { uint32_t first, count; };

// Words of one wavefront (see wave.h); with stable addresses, whose bit 0 is set if other workgroups access the line.
struct rpl_timed_wave { const uint64_t *words; uint64_t count; };

struct rpl_cu_parameters {
  uint32_t simds, barrier_cycles, scalar_load_latency, lds_latency;
  uint32_t l1_latency, l2_latency, mall_latency, dram_latency;
  uint32_t l1_lines, l2_lines, mall_lines;      // this CU's share, in lines of 128 bytes
  uint32_t workgroup_launch_cycles;
  double l1_bytes, l2_bytes, mall_bytes, dram_bytes;  // per clock, this CU's share
};

struct rpl_cu_counters {
  double cycles, wave_cycles, busy_cycles, valu_busy_cycles, wait_cycles;
  double l1_lookups, l2_reads, l2_writes, l2_hits, l2_misses, dram_reads, dram_writes;  // reads of 128, writes of 64 bytes
  double memory_instructions;
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
  const struct rpl_timed_wave *waves;           // [sampled workgroup][wave]
  uint32_t sampled_workgroups, waves_per_workgroup;
  uint32_t workgroups;                          // to run on this CU
  uint32_t resident;                            // maximum number at once
  const struct rpl_cu_parameters *cu;
  double *finish_cycles;                        // [workgroup]: end of each, out
  uint64_t *hits;                               // [instruction], out
  // [instruction], out. Latency includes the stall before the issue; idle is the gap before the first attempt.
  double *latency_cycles, *stall_cycles, *idle_cycles;
  struct rpl_cu_counters *counters;             // out
  struct rpl_thread_trace *thread_trace;        // NULL: none
};

int rpl_time_compute_unit(const struct rpl_cu_run *run);  // returns 1 if memory is short or a trace does not match
void rpl_thread_trace_free(struct rpl_thread_trace *trace, uint64_t waves);
#endif
