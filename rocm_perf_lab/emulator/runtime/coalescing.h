// Requests that a vector memory instruction makes to the vector L1 cache: rpl_requests_of().
#ifndef RPL_COALESCING_H
#define RPL_COALESCING_H
#include "access.h"

enum { RPL_SEGMENT_SHIFT = 6 };  // writes and atomics go to L2 in segments of 64 bytes

struct rpl_requests {
  uint32_t accesses;      // requests of the address unit: one per quad of lanes that it merges, else one per active lane
  uint32_t lookups;       // tag lookups, one a clock
  uint32_t is_coalesced;  // the address unit merged every quad
};

// The address unit merges the four lanes of a quad if they access at most 4 bytes each, within 16 bytes of one line. A lookup
// serves the 16 lanes of four merged quads, or one quad; each of them takes a lookup for every line that it accesses.
// `line_shift` is the logarithm of the line length of the vector L1.
struct rpl_requests rpl_requests_of(uint64_t lanes, const uint64_t *address, uint32_t width, uint32_t line_shift);
// Distinct segments of 64 bytes that the lanes access.
uint32_t rpl_segments_of(uint64_t lanes, const uint64_t *address, uint32_t width);
// Adds the requests of one access to the counters of the thread.
void rpl_count_requests(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
// The same for private memory at the lanes' offsets: the hardware interleaves the lanes' dwords.
void rpl_count_private(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *offset, uint32_t width);
#endif
