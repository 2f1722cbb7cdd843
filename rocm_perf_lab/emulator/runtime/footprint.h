// Lines of device memory that a launch accesses, as a sample of the line space for the model of the shared caches.
// emulator/footprint.py mirrors these layouts; a test compares them.
#ifndef RPL_FOOTPRINT_H
#define RPL_FOOTPRINT_H
#include <stdint.h>

struct rpl_wave;

enum {
  RPL_CACHED_LINE_SHIFT = 7, RPL_CACHED_LINE_BYTES = 128, RPL_CACHED_SECTOR_SHIFT = 5, RPL_CACHED_SECTORS = 4,
  // Fields of rpl_line_access.place; the line is in the low 32 bits.
  RPL_PLACE_ALLOCATION = 32, RPL_PLACE_SECTORS = 47, RPL_PLACE_KIND = 51, RPL_PLACE_SCALAR = 53, RPL_PLACE_WAVE = 54,
  RPL_PLACE_DWORDS = 58,
  RPL_MAX_SAMPLING_SHIFT = 10,
  // Scratch is recorded as one allocation of this number, in which each XCD has slots that its workgroups use in turn.
  RPL_PRIVATE_ALLOCATION = 0x7fff, RPL_NEW_ALLOCATION = 0x7ffe, RPL_PRIVATE_SLOTS = 256,
  // Windows in which all lines are counted by channel: eight memory instructions of the first 64 workgroups of an XCD, which run
  // at about the same time.
  RPL_WINDOW_INSTRUCTIONS = 8, RPL_WINDOWS = 8, RPL_WINDOW_GROUPS = 64, RPL_CHANNEL_BITS_MAX = 8, RPL_COUNTED_LINES = 4096,
};

// One instruction of a wavefront that accesses a sampled line. `place`: number of the line within its allocation (32 bits),
// index of the allocation in the registry (15; RPL_NEW_ALLOCATION: made later), accessed 32-byte sectors (4), enum rpl_access (2), scalar (1), wavefront in
// its workgroup (4), accessed dwords less one (5). `time`: earlier memory instructions of the wavefront.
struct rpl_line_access { uint64_t place; uint32_t workgroup, time; };

// Records of one thread: one of each 2^(shift + level) consecutive lines. `level` rises whenever the records exceed `limit`.
struct rpl_footprint {
  struct rpl_line_access *records;
  uint64_t count, capacity, limit;
  uint32_t *memory_instructions;  // [linear id of a workgroup]: of its longest wavefront
  uint32_t shift, level;
  uint32_t is_truncated;          // too little host memory
  uint32_t xcds, channel_bits, padding;
  uint64_t channel_masks[RPL_CHANNEL_BITS_MAX];  // bit k of the number of a channel: parity of the address and mask k
  uint32_t *windows;              // [xcds][RPL_WINDOWS][channels]: lines, those of loads once per workgroup
  uint64_t *counted;              // [RPL_COUNTED_LINES]: lines that a workgroup loaded before, by a hash
  const struct rpl_allocation *known;  // registry whose indices the records have, if another one may follow; NULL: the machine's
  uint64_t known_count;
};

// Records an access whose lanes are in the allocation `machine->last_hit`; [low, high) is the range that they access.
void rpl_footprint_access(struct rpl_wave *w, int access, int scalar, uint64_t lanes, const uint64_t *address, uint32_t width,
                          uint64_t low, uint64_t high);
// The same for scratch: `inner` are the offsets within the scratch of each lane. Hardware interleaves the lanes.
void rpl_footprint_private(struct rpl_wave *w, int access, uint64_t lanes, const uint64_t *inner, uint32_t width);
// Drops records that are not in the sample of `level`.
void rpl_footprint_thin(struct rpl_footprint *f, uint32_t level);
void rpl_footprint_free(struct rpl_footprint *f);
#endif
