// SCRATCH: private memory of each lane.
#include "access.h"
#include "coalescing.h"
#include "footprint.h"

// Hardware interleaves the lanes' scratch, so that lanes access adjacent memory at equal offsets.
static void trace_scratch(struct rpl_wave *w, int inst, int access, uint64_t lanes, uint32_t width, const uint64_t *inner) {
  uint64_t address[RPL_LANES];
  RPL_FOR_LANES(lanes, l) address[l] = (uint64_t)w->scratch + inner[l] * RPL_LANES + l * width;
  rpl_trace_vector(w, inst, access, lanes, address, width);
}

static int scratch_pointers(struct rpl_wave *w, int inst, int access, int addr, uint32_t saddr, int32_t offset, uint64_t lanes,
                            uint32_t width, uint64_t *address) {
  uint64_t bad = 0, inner[RPL_LANES];
  RPL_FOR_LANES(lanes, l) {
    inner[l] = (addr < 0 ? 0 : w->vgpr[addr][l]) + saddr + (uint32_t)offset;
    if (inner[l] + width > w->scratch_bytes) bad |= 1ull << l;
    address[l] = (uint64_t)w->scratch + l * w->scratch_bytes + inner[l];
  }
  if (bad) return rpl_raise(w, RPL_FAULT_SCRATCH, inst, access, width, bad, inner, w->scratch_bytes);
  rpl_count_private(w, access, lanes, inner, width);
  if (w->machine->footprint) rpl_footprint_private(w, access, lanes, inner, width);
  if (w->trace) trace_scratch(w, inst, access, lanes, width, inner);
  return 0;
}

int rpl_scratch_load(struct rpl_wave *w, int inst, int dst, int addr, uint32_t saddr, int32_t offset, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w), address[RPL_LANES];
  uint32_t width = rpl_width(kind, dwords);
  if (scratch_pointers(w, inst, RPL_LOAD, addr, saddr, offset, lanes, width, address)) return 1;
  w->machine->counters.buffer_read_waves++;
  RPL_FOR_LANES(lanes, l) rpl_lane_load(w, dst, l, (const uint8_t *)address[l], kind, dwords);
  return 0;
}

int rpl_scratch_store(struct rpl_wave *w, int inst, int data, int addr, uint32_t saddr, int32_t offset, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w), address[RPL_LANES];
  uint32_t width = rpl_width(kind, dwords);
  if (scratch_pointers(w, inst, RPL_STORE, addr, saddr, offset, lanes, width, address)) return 1;
  w->machine->counters.buffer_write_waves++;
  RPL_FOR_LANES(lanes, l) rpl_lane_store(w, data, l, (uint8_t *)address[l], kind, dwords);
  return 0;
}
