// Lane permutations of the LDS unit: they move VGPR contents between lanes and touch no memory.
#include "permuting.h"

static void write_back(struct rpl_wave *w, int inst, int dst, const uint32_t *value) {
  uint64_t lanes = rpl_exec(w);
  if (lanes == RPL_ALL_LANES) memcpy(w->vgpr[dst], value, sizeof w->vgpr[dst]);
  else RPL_FOR_LANES(lanes, l) w->vgpr[dst][l] = value[l];
  if (!w->trace) return;
  uint64_t word = (uint64_t)RPL_T_LDS << 56 | 2ull << 32 | (uint32_t)inst;  // 64 dwords through 32 banks
  rpl_trace_append(w->trace, &word, 1);
}

// The lane that each lane names by its address, among the lanes of its group; a group has a power of two of them.
static void named_lanes(const uint32_t *address, uint32_t offset, uint32_t group, uint8_t *named) {
  for (uint32_t l = 0; l < RPL_LANES; l++) named[l] = (uint8_t)((l & ~(group - 1)) | ((address[l] + offset) / 4 & (group - 1)));
}

// Pull: lane l reads the value of lane (addr + offset) / 4, or zero if that is inactive.
int rpl_bpermute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset, uint32_t group) {
  uint64_t lanes = rpl_exec(w);
  uint32_t value[RPL_LANES];
  uint8_t from[RPL_LANES];
  named_lanes(w->vgpr[addr], offset, group, from);
  rpl_pull(value, w->vgpr[data], from, lanes == RPL_ALL_LANES ? lanes : rpl_pull_bits(lanes, from));
  write_back(w, inst, dst, value);
  return 0;
}

// Push: lane l sends its value to lane (addr + offset) / 4; the highest sender wins; lanes without a sender receive zero.
int rpl_permute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset, uint32_t group) {
  uint32_t value[RPL_LANES] = {0};
  uint8_t to[RPL_LANES];
  named_lanes(w->vgpr[addr], offset, group, to);
  RPL_FOR_LANES(rpl_exec(w), l) value[to[l]] = w->vgpr[data][l];
  write_back(w, inst, dst, value);
  return 0;
}

// Butterflies of a fast Fourier transform: reversed bits of the lane, within groups separated by the mask.
static uint32_t reversed_lane(uint32_t lane, uint32_t mask) {
  uint32_t backwards = 0;
  for (int i = 0; i < 5; i++) backwards |= (lane >> i & 1) << (4 - i);
  return (lane & 32) | backwards >> __builtin_popcount(mask) | (lane & mask);
}

static uint32_t swizzle_source(uint32_t lane, uint32_t offset) {
  if ((offset & 0xe000) == 0xe000) return reversed_lane(lane, offset & 31);
  if ((offset & 0xe000) == 0xc000) {                                                           // rotate within 32 lanes
    uint32_t mask = offset & 31, amount = offset >> 5 & 31, inner = lane & 31;
    uint32_t rotated = offset >> 10 & 1 ? inner - amount : inner + amount;
    return (lane & 32) | (inner & mask) | (rotated & 31 & ~mask);
  }
  if (offset & 0x8000) return (lane & ~3u) | (offset >> 2 * (lane & 3) & 3);                   // quad permutation
  uint32_t inner = lane & 31;
  return (lane & 32) | ((((inner & (offset & 31)) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)) & 31);
}

int rpl_swizzle(struct rpl_wave *w, int inst, int dst, int data, uint32_t offset) {
  uint64_t lanes = rpl_exec(w);
  uint32_t value[RPL_LANES];
  uint8_t from[RPL_LANES];
  for (uint32_t l = 0; l < RPL_LANES; l++) from[l] = (uint8_t)swizzle_source(l, offset);
  rpl_pull(value, w->vgpr[data], from, lanes == RPL_ALL_LANES ? lanes : rpl_pull_bits(lanes, from));
  write_back(w, inst, dst, value);
  return 0;
}

int rpl_swap_lanes(struct rpl_wave *w, int inst, int first, int second, int rows) {
  uint64_t lanes = rpl_exec(w);
  if (lanes != RPL_ALL_LANES) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 4, ~lanes, NULL, 0);
  for (int begin = 0; begin < RPL_LANES; begin += 2 * rows)
    for (int l = begin; l < begin + rows; l++) {
      uint32_t moved = w->vgpr[first][l];
      w->vgpr[first][l] = w->vgpr[second][l + rows];
      w->vgpr[second][l + rows] = moved;
    }
  return 0;
}

int rpl_permute_rows(struct rpl_wave *w, int inst, int dst, int src, uint32_t low, uint32_t high, int crosses, int inactive, int bound_ctrl) {
  (void)inst;
  enum { ROW = 16, SELECTOR_BITS = 4 };
  uint64_t lanes = rpl_exec(w), selectors = (uint64_t)high << 32 | low;
  uint32_t before[RPL_LANES];
  memcpy(before, w->vgpr[src], sizeof before);
  RPL_FOR_LANES(lanes, l) {
    uint64_t row = (l / ROW ^ (uint64_t)crosses) * ROW, from = row + (selectors >> l % ROW * SELECTOR_BITS & (ROW - 1));
    if (inactive || lanes >> from & 1) w->vgpr[dst][l] = before[from];
    else if (bound_ctrl) w->vgpr[dst][l] = 0;
  }
  return 0;
}

static int offset_by(uint32_t m0, int which) {
  enum { PART = 0x3ff, HIGH = 16 };
  switch (which) {
    case RPL_BY_M0: return (int)(m0 & 0xffff);
    case RPL_BY_M0_LOW: return (int)(m0 & PART);
    case RPL_BY_M0_HIGH: return (int)(m0 >> HIGH & PART);
    default: return 0;
  }
}

// Registers beyond the allocated ones: hardware reads v0 and ignores writes.
int rpl_relative_move(struct rpl_wave *w, int inst, int to, int from, uint32_t value, int to_by, int from_by, int swaps) {
  (void)inst;
  enum { M0 = 124, ARCHITECTURAL_ROWS = 256 };
  uint32_t m0 = w->sgpr[M0];
  to += offset_by(m0, to_by);
  if (from >= 0) from += offset_by(m0, from_by);
  if (from >= ARCHITECTURAL_ROWS) from = 0;
  RPL_FOR_LANES(rpl_exec(w), l) {
    uint32_t moved = from < 0 ? value : w->vgpr[from][l];
    if (to >= ARCHITECTURAL_ROWS) continue;
    if (swaps && from >= 0) w->vgpr[from][l] = w->vgpr[to][l];
    w->vgpr[to][l] = moved;
  }
  return 0;
}
