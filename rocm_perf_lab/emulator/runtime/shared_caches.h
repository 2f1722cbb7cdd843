// Model of the memory that compute units share: an L2 per XCD, the memory-side cache (MALL) and HBM.
// emulator/timing/shared_caches.py mirrors these layouts; a test compares them.
#ifndef RPL_SHARED_CACHES_H
#define RPL_SHARED_CACHES_H
#include "footprint.h"

// What served a request. A pending line is in L2 already, but another request fetched it within `pending_time` before.
enum rpl_service { RPL_SERVED_L1, RPL_SERVED_L2, RPL_SERVED_L2_PENDING, RPL_SERVED_MALL, RPL_SERVED_HBM, RPL_SERVICES };
// Requests: vector loads, stores, atomics, scalar loads.
enum { RPL_REQUEST_KINDS = 4 };

struct rpl_shared_parameters {
  uint32_t xcds, units_per_xcd, resident;       // workgroups at once on a compute unit
  uint32_t sampling;                            // 1 of this number of lines is in the records
  uint32_t l1_lines, l1_ways, l2_lines, l2_ways;  // of the hardware, not of the sample; L1 per unit, L2 per XCD
  uint32_t mall_lines, mall_ways;
  uint32_t pending_time;                        // memory instructions of a wavefront
  uint32_t atomics_in_l2;                       // else at the memory
  uint32_t l2_channel_bits, memory_channel_bits;
  uint64_t channel_masks[RPL_CHANNEL_BITS_MAX]; // bit k of the number of a channel: parity of the address and mask k
};

// Requests of the sample to one channel of an L2. Reads and fills of whole lines, scalar reads of 64 bytes, writes of up to 64.
struct rpl_channel_counts {
  uint64_t reads, scalar_reads, writes, atomics, hits, misses;
  uint64_t memory_reads, memory_scalar_reads, memory_writes, memory_partial_writes, memory_atomics;
};

struct rpl_memory_channel { uint64_t read_bytes, write_bytes, partial_writes; };

struct rpl_shared_totals {
  uint64_t mall_read_bytes, mall_write_bytes, dram_read_bytes, dram_write_bytes, partial_write_sectors;
  uint64_t dirty_bytes_at_end;                  // in L2, written back when the kernel ends
};

struct rpl_shared_run {
  const struct rpl_shared_parameters *parameters;
  const struct rpl_line_access *records;        // ordered by workgroup, then time
  const uint64_t *first_record;                 // [workgroups + 1]
  const uint32_t *memory_instructions;          // [workgroups]: of the longest wavefront
  const uint64_t *allocation_base;              // [allocation]: where the model places it, in bytes
  uint64_t workgroups;
  uint32_t is_warm;                             // the same launch ran before
  uint32_t padding;
  // Out
  uint32_t *served;                             // [workgroups][RPL_REQUEST_KINDS][RPL_SERVICES]
  struct rpl_channel_counts *channels;          // [xcds][channels]
  struct rpl_memory_channel *memory_channels;   // [memory channels]
  struct rpl_shared_totals *totals;
};

// Returns 1 if memory is short.
int rpl_shared_caches(const struct rpl_shared_run *run);
void rpl_shared_layout(uint64_t *sizes);
#endif
