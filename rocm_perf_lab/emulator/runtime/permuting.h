// Lanes that read other lanes, for data-parallel primitives and the permutations of the LDS unit.
#ifndef RPL_PERMUTING_H
#define RPL_PERMUTING_H
#include "access.h"

// Returns, for each lane, the bit of `mask` of its source lane.
static inline uint64_t rpl_pull_bits(uint64_t mask, const uint8_t *from) {
  uint64_t bits = 0;
  for (uint32_t l = 0; l < RPL_LANES; l++) bits |= (mask >> from[l] & 1) << l;
  return bits;
}

// Sets each lane of `to`, which may be `row`, to that of its source lane in `row`, or to zero if it is not in `valid`.
static inline void rpl_pull(uint32_t *to, const uint32_t *row, const uint8_t *from, uint64_t valid) {
  uint32_t moved[RPL_LANES];
  for (uint32_t l = 0; l < RPL_LANES; l++) moved[l] = row[from[l]];
  if (valid != RPL_ALL_LANES)
    for (uint32_t l = 0; l < RPL_LANES; l++) moved[l] &= -(uint32_t)(valid >> l & 1);
  memcpy(to, moved, sizeof moved);
}
#endif
