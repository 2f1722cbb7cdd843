// Second half of loads into LDS: from a row of loaded dwords to LDS.
#include "access.h"
#include "checks.h"

// CDNA3 ISA, "Buffer load to LDS": LDS address = LDS base + M0[15:0] + offset of the instruction + 4 * lane.
int rpl_lds_fill(struct rpl_wave *w, int inst, int row, uint32_t base) {
  uint64_t lanes = rpl_exec(w), bad = 0, wide[RPL_LANES];
  uint32_t address[RPL_LANES];
  for (uint32_t l = 0; l < RPL_LANES; l++) {
    wide[l] = address[l] = base + 4 * l;
    bad |= (uint64_t)(wide[l] + 4 > w->lds_bytes) << l;
  }
  if (bad & lanes) return rpl_raise(w, RPL_FAULT_LDS, inst, RPL_STORE, 4, bad & lanes, wide, w->lds_bytes);
  if (w->group) rpl_checked_lds(w, inst, RPL_STORE, lanes, address, 4);
  RPL_FOR_LANES(lanes, l) rpl_write32(w->lds + address[l], w->vgpr[row][l]);
  w->machine->counters.lds_bytes += 4 * (uint64_t)__builtin_popcountll(lanes);
  return 0;
}
