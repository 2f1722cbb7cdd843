// Second half of loads into LDS: from rows of loaded dwords to LDS.
#include "access.h"
#include "checks.h"

// CDNA3 and CDNA4 ISA, "Buffer load to LDS": LDS address = LDS base + M0 + offset of the instruction + 4 * lane, and 16 * lane for
// three and four dwords: "LOAD_DWORDX3 writes 3 dwords and skips the 4th".
int rpl_lds_fill(struct rpl_wave *w, int inst, int row, uint32_t base, int dwords) {
  uint64_t lanes = rpl_exec(w), bad = 0, wide[RPL_LANES];
  uint32_t address[RPL_LANES], width = 4 * (uint32_t)dwords, stride = dwords > 2 ? 16 : width;
  for (uint32_t l = 0; l < RPL_LANES; l++) {
    wide[l] = address[l] = base + stride * l;
    bad |= (uint64_t)(wide[l] + width > w->lds_bytes) << l;
  }
  bad &= lanes;
  if (bad && !rpl_checked_lds_range(w, inst, RPL_STORE, bad, address, width)) return rpl_raise(w, RPL_FAULT_LDS, inst, RPL_STORE, width, bad, wide, w->lds_bytes);
  if (w->group) rpl_checked_lds(w, inst, RPL_STORE, lanes & ~bad, address, width);
  RPL_FOR_LANES(lanes, l)
    for (int k = 0; k < dwords; k++) rpl_write32(w->lds + address[l] + 4 * k, w->vgpr[row + k][l]);
  w->machine->counters.lds_bytes += width * (uint64_t)__builtin_popcountll(lanes);
  return 0;
}
