// Lane permutations of the LDS unit: they move VGPR contents between lanes and touch no memory.
#include "access.h"

static void write_back(struct rpl_wave *w, int inst, int dst, const uint32_t *value) {
  RPL_FOR_LANES(rpl_exec(w), l) w->vgpr[dst][l] = value[l];
  if (!w->trace) return;
  uint64_t word = (uint64_t)RPL_T_LDS << 56 | 2ull << 32 | (uint32_t)inst;  // 64 dwords through 32 banks
  rpl_trace_append(w->trace, &word, 1);
}

// Pull: lane l reads the value of lane (addr + offset) / 4, or zero if that is inactive.
int rpl_bpermute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset) {
  uint64_t lanes = rpl_exec(w);
  uint32_t value[RPL_LANES];
  for (int l = 0; l < RPL_LANES; l++) {
    uint32_t source = (w->vgpr[addr][l] + offset) / 4 % RPL_LANES;
    value[l] = lanes >> source & 1 ? w->vgpr[data][source] : 0;
  }
  write_back(w, inst, dst, value);
  return 0;
}

// Push: lane l sends its value to lane (addr + offset) / 4; the highest sender wins; lanes without a sender receive zero.
int rpl_permute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset) {
  uint32_t value[RPL_LANES] = {0};
  RPL_FOR_LANES(rpl_exec(w), l) value[(w->vgpr[addr][l] + offset) / 4 % RPL_LANES] = w->vgpr[data][l];
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
  for (uint32_t l = 0; l < RPL_LANES; l++) {
    uint32_t source = swizzle_source(l, offset);
    value[l] = lanes >> source & 1 ? w->vgpr[data][source] : 0;
  }
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
