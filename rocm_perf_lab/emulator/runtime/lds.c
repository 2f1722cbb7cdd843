// LDS: loads, stores and atomics with a bounds check, and the cycles that bank conflicts cost.
#include "atomics.h"
#include "checks.h"

enum { BANKS = 32 };

// ---- banks ----

// Returns whether no bank has two different dwords in this pass, for accesses aligned to their 2^shift bytes: the banks of one
// access then coincide with another's either all or not at all. Equal addresses are one access (broadcast).
static int is_conflict_free(const uint32_t *address, uint64_t lanes, int first, int count, int shift) {
  uint32_t seen = 0, unit_in[BANKS], groups = (BANKS >> (shift - 2)) - 1, misaligned = 0;
  for (int l = first; l < first + count; l++) {
    if (!(lanes >> l & 1)) continue;
    uint32_t unit = address[l] >> shift, group = unit & groups;
    misaligned |= address[l] & ((1u << shift) - 1);
    if (seen >> group & 1 && unit_in[group] != unit) return 0;
    seen |= 1u << group;
    unit_in[group] = unit;
  }
  return !misaligned;
}

// Returns whether the lanes of a pass access one after the other, which takes each bank once if they begin at a dword.
static int is_run(const uint32_t *address, int count, uint32_t width) {
  uint32_t differs = address[0] & 3;
  for (int l = 1; l < count; l++) differs |= (address[l] - address[l - 1]) ^ width;
  return !differs;
}

// Returns the cycles of one pass: the maximum of distinct dwords per bank of lanes [first, first + count).
static uint32_t pass_cycles(const uint32_t *address, uint64_t lanes, int first, int count, int dwords) {
  uint64_t in_pass = lanes >> first & ((1ull << count) - 1);
  if (!in_pass) return 0;
  if (dwords != 3 && in_pass == (1ull << count) - 1 && is_run(address + first, count, 4 * (uint32_t)dwords)) return 1;
  if (dwords != 3 && is_conflict_free(address, lanes, first, count, 2 + dwords / 2)) return 1;
  uint32_t depth[BANKS] = {0}, cycles = 0, unique[BANKS][BANKS];
  for (int l = first; l < first + count; l++) {
    if (!(lanes >> l & 1)) continue;
    for (int k = 0; k < dwords; k++) {
      uint32_t dword = (address[l] >> 2) + (uint32_t)k, bank = dword & (BANKS - 1), seen = 0;
      while (seen < depth[bank] && unique[bank][seen] != dword) seen++;
      if (seen == depth[bank]) unique[bank][depth[bank]++] = dword;
      cycles = depth[bank] > cycles ? depth[bank] : cycles;
    }
  }
  return cycles;
}

static int is_contiguous(const uint32_t *address, uint64_t lanes, uint32_t width) {
  uint32_t differs = (uint32_t)(lanes != RPL_ALL_LANES);
  for (uint32_t l = 0; l < RPL_LANES; l++) differs |= address[l] ^ (address[0] + l * width);
  return !differs;
}

// LDS moves 32 dwords a cycle: 32 lanes of one dword, 16 of two, 8 of three or four.
static void count_passes(const uint32_t *address, uint64_t lanes, int dwords, uint32_t *cycles, uint32_t *passes) {
  int lanes_per_pass = BANKS / (dwords == 3 ? 4 : dwords);
  *cycles = *passes = 0;
  for (int first = 0; first < RPL_LANES; first += lanes_per_pass) {
    uint32_t pass = pass_cycles(address, lanes, first, lanes_per_pass, dwords);
    *cycles += pass;
    *passes += pass > 0;
  }
}

// An equal offset of all lanes rotates all banks, so instructions in loops repeat patterns.
enum { MEMOS = 64 };
struct memo {
  uint32_t relative[RPL_LANES];
  uint64_t lanes;
  uint32_t dwords, offset_in_dword, cycles, passes;
};

static const struct memo *pattern_of(int inst, const uint32_t *address, uint64_t lanes, int dwords) {
  static _Thread_local struct memo memos[MEMOS];  // of a pure function: never stale
  struct memo *m = &memos[inst & (MEMOS - 1)];
  uint32_t origin = address[0], differs = 0;
  for (int l = 0; l < RPL_LANES; l++) differs |= (address[l] - origin) ^ m->relative[l];
  if (!differs && m->lanes == lanes && m->dwords == (uint32_t)dwords && m->offset_in_dword == (origin & 3)) return m;
  for (int l = 0; l < RPL_LANES; l++) m->relative[l] = address[l] - origin;
  m->lanes = lanes;
  m->dwords = (uint32_t)dwords;
  m->offset_in_dword = origin & 3;
  count_passes(address, lanes, dwords, &m->cycles, &m->passes);
  return m;
}

// Counts the access; returns the cycles for which the LDS is busy.
static uint32_t count_cycles(struct rpl_wave *w, int inst, const uint32_t *address, uint64_t lanes, int dwords) {
  uint32_t cycles, passes;
  if (dwords != 3 && is_contiguous(address, lanes, 4 * (uint32_t)dwords)) cycles = passes = 2 * (uint32_t)dwords;
  else {
    const struct memo *m = pattern_of(inst, address, lanes, dwords);
    cycles = m->cycles;
    passes = m->passes;
  }
  w->machine->counters.lds_active_cycles += cycles;
  w->machine->counters.lds_conflict_cycles += cycles - passes;
  w->machine->counters.lds_bytes += 4 * (uint64_t)dwords * (uint64_t)__builtin_popcountll(lanes);
  return cycles;
}

static void trace_cycles(struct rpl_wave *w, int inst, uint32_t cycles) {
  if (!w->trace) return;
  uint64_t word = (uint64_t)RPL_T_LDS << 56 | (uint64_t)cycles << 32 | (uint32_t)inst;
  rpl_trace_append(w->trace, &word, 1);
}

// ---- bounds ----

enum { ROW_OF_M0 = -1, M0 = 124 };  // in place of an address register: M0[15:0] + 4 * lane

// Loads out of range return zero (ISA guides, "LDS instructions"). This is a fault here except at the address at which Tensile's
// kernels load zeros, which no LDS and hardly a wrong index reaches: `v_mov_b32 v43, 0xf00000; ds_read_b32 a0, v43`.
enum { ZEROS = 0xf00000, ZEROS_BYTES = 1 << 16 };

static int addresses_of(struct rpl_wave *w, int inst, int access, int addr, uint32_t offset, uint64_t lanes, uint32_t width,
                        uint32_t *restrict out) {
  uint64_t bad = 0, zeros = 0;
  uint32_t last = w->lds_bytes - width, is_over = 0;
  // 32 bits: compilers use negative bases with an offset
  if (addr == ROW_OF_M0)
    for (uint32_t l = 0; l < RPL_LANES; l++) out[l] = (w->sgpr[M0] & 0xffff) + 4 * l + offset;
  else
    for (uint32_t l = 0; l < RPL_LANES; l++) out[l] = w->vgpr[addr][l] + offset;
  for (uint32_t l = 0; l < RPL_LANES; l++) is_over |= (uint32_t)(out[l] > last);
  if (w->lds_bytes < width) bad = lanes;
  else if (is_over)
    RPL_FOR_LANES(lanes, l) bad |= (uint64_t)(out[l] > last) << l;
  if (bad && access == RPL_LOAD)
    RPL_FOR_LANES(bad, l)
      if (out[l] - ZEROS < ZEROS_BYTES) {
        zeros |= 1ull << l;
        out[l] = w->lds_bytes;  // zeros follow LDS
      }
  bad &= ~zeros;
  if (!bad || rpl_checked_lds_range(w, inst, access, bad, out, width)) {
    lanes &= ~(zeros | bad);
    if (w->group) rpl_checked_lds(w, inst, access, lanes, out, width);
    return 0;
  }
  uint64_t address[RPL_LANES];
  for (int l = 0; l < RPL_LANES; l++) address[l] = out[l];
  return rpl_raise(w, RPL_FAULT_LDS, inst, access, width, bad, address, w->lds_bytes);
}

// ---- helpers of wave.h ----

static inline __attribute__((always_inline)) void gather(struct rpl_wave *w, int dst, const uint32_t *address, int dwords) {
  for (int l = 0; l < RPL_LANES; l++)
    for (int k = 0; k < dwords; k++) w->vgpr[dst + k][l] = rpl_read32(w->lds + address[l] + 4 * k);
}

// Four dwords per lane: transposes four lanes at a time from memory order to register rows.
typedef uint32_t quad __attribute__((vector_size(16), aligned(4)));

static void gather4(struct rpl_wave *w, int dst, const uint32_t *address) {
  for (int l = 0; l < RPL_LANES; l += 4) {
    quad a, b, c, d;
    memcpy(&a, w->lds + address[l], sizeof a);
    memcpy(&b, w->lds + address[l + 1], sizeof b);
    memcpy(&c, w->lds + address[l + 2], sizeof c);
    memcpy(&d, w->lds + address[l + 3], sizeof d);
    quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)&w->vgpr[dst][l] = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(quad *)&w->vgpr[dst + 1][l] = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(quad *)&w->vgpr[dst + 2][l] = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(quad *)&w->vgpr[dst + 3][l] = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  }
}

static void load(struct rpl_wave *w, int dst, const uint32_t *address, uint64_t lanes, int kind, int dwords) {
  if (lanes == RPL_ALL_LANES && kind == RPL_B32) {
    switch (dwords) {
      case 1: gather(w, dst, address, 1); return;
      case 2: gather(w, dst, address, 2); return;
      case 4: gather4(w, dst, address); return;
      default: break;
    }
  }
  RPL_FOR_LANES(lanes, l) rpl_lane_load(w, dst, l, w->lds + address[l], kind, dwords);
}

static inline __attribute__((always_inline)) void scatter(struct rpl_wave *w, int data, const uint32_t *address, int dwords) {
  for (int l = 0; l < RPL_LANES; l++)
    for (int k = 0; k < dwords; k++) rpl_write32(w->lds + address[l] + 4 * k, w->vgpr[data + k][l]);
}

static void store(struct rpl_wave *w, int data, const uint32_t *address, uint64_t lanes, int kind, int dwords) {
  if (lanes == RPL_ALL_LANES && kind == RPL_B32) {
    switch (dwords) {
      case 1: scatter(w, data, address, 1); return;
      case 2: scatter(w, data, address, 2); return;
      case 4: scatter(w, data, address, 4); return;
      default: break;
    }
  }
  RPL_FOR_LANES(lanes, l) rpl_lane_store(w, data, l, w->lds + address[l], kind, dwords);
}

static int dwords_of(int kind, int dwords) { return (kind & RPL_KIND_MASK) == RPL_B32 ? dwords : 1; }

int rpl_lds_load(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w);
  uint32_t address[RPL_LANES];
  if (addresses_of(w, inst, RPL_LOAD, addr, offset, lanes, rpl_width(kind, dwords), address)) return 1;
  trace_cycles(w, inst, count_cycles(w, inst, address, lanes, dwords_of(kind, dwords)));
  load(w, dst, address, lanes, kind, dwords);
  return 0;
}

// CDNA4 ISA, "MFMA Transpose Load from LDS": each lane reads 64 bits, or 96 for elements of 6 bits; 16 lanes hold a matrix with
// rows of 16 elements, of which a lane receives a column.
int rpl_lds_load_transposed(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset, int bits) {
  enum { GROUP = 16 };
  uint64_t lanes = rpl_exec(w);
  uint32_t words = bits == 6 ? 3 : 2, width = (uint32_t)bits, rows = 32 * words / width, per_row = GROUP / rows;
  uint32_t address[RPL_LANES], read[RPL_LANES][3 + 1] = {0}, column[RPL_LANES][3 + 1] = {0};  // fields may cross words
  if (lanes != RPL_ALL_LANES) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 4 * words, ~lanes, NULL, 0);
  if (addresses_of(w, inst, RPL_LOAD, addr, offset, lanes, 4 * words, address)) return 1;
  trace_cycles(w, inst, count_cycles(w, inst, address, lanes, (int)words));
  for (int l = 0; l < RPL_LANES; l++) memcpy(read[l], w->lds + address[l], 4 * words);
  for (uint32_t l = 0; l < RPL_LANES; l++)
    for (uint32_t row = 0; row < rows; row++) {
      uint32_t source = l / GROUP * GROUP + row * per_row + l % GROUP / rows, from = width * (l % rows), to = width * row;
      uint64_t pair, merged;
      memcpy(&pair, &read[source][from / 32], sizeof pair);
      memcpy(&merged, &column[l][to / 32], sizeof merged);
      merged |= (pair >> from % 32 & ((1ull << width) - 1)) << to % 32;
      memcpy(&column[l][to / 32], &merged, sizeof merged);
    }
  for (uint32_t word = 0; word < words; word++)
    for (int l = 0; l < RPL_LANES; l++) w->vgpr[dst + (int)word][l] = column[l][word];
  return 0;
}

int rpl_lds_store(struct rpl_wave *w, int inst, int data, int addr, uint32_t offset, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w);
  uint32_t address[RPL_LANES];
  rpl_checked_store(w, data, kind);
  if (addresses_of(w, inst, RPL_STORE, addr, offset, lanes, rpl_width(kind, dwords), address)) return 1;
  trace_cycles(w, inst, count_cycles(w, inst, address, lanes, dwords_of(kind, dwords)));
  store(w, data, address, lanes, kind, dwords);
  return 0;
}

// `data0` and `data1` are the data of a store and unused for other accesses.
static int two_addresses(struct rpl_wave *w, int inst, int access, int addr, uint32_t offset0, uint32_t offset1, int data0, int data1,
                         int dwords, uint64_t lanes, uint32_t *first, uint32_t *second) {
  uint32_t width = 4 * (uint32_t)dwords;
  rpl_checked_store(w, data0, RPL_B32);
  if (addresses_of(w, inst, access, addr, offset0, lanes, width, first)) return 1;
  rpl_checked_store(w, data1, RPL_B32);
  if (addresses_of(w, inst, access, addr, offset1, lanes, width, second)) return 1;
  uint32_t cycles = count_cycles(w, inst, first, lanes, dwords);
  trace_cycles(w, inst, cycles + count_cycles(w, inst + MEMOS / 2, second, lanes, dwords));
  return 0;
}

int rpl_lds_load2(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset0, uint32_t offset1, int dwords) {
  uint64_t lanes = rpl_exec(w);
  uint32_t first[RPL_LANES], second[RPL_LANES];
  if (two_addresses(w, inst, RPL_LOAD, addr, offset0, offset1, -1, -1, dwords, lanes, first, second)) return 1;
  load(w, dst, first, lanes, RPL_B32, dwords);
  load(w, dst + dwords, second, lanes, RPL_B32, dwords);
  return 0;
}

int rpl_lds_store2(struct rpl_wave *w, int inst, int data0, int data1, int addr, uint32_t offset0, uint32_t offset1, int dwords) {
  uint64_t lanes = rpl_exec(w);
  uint32_t first[RPL_LANES], second[RPL_LANES];
  if (two_addresses(w, inst, RPL_STORE, addr, offset0, offset1, data0, data1, dwords, lanes, first, second)) return 1;
  RPL_FOR_LANES(lanes, l) {
    rpl_lane_store(w, data0, l, w->lds + first[l], RPL_B32, dwords);
    rpl_lane_store(w, data1, l, w->lds + second[l], RPL_B32, dwords);
  }
  return 0;
}

int rpl_lds_atomic(struct rpl_wave *w, int inst, int dst, int data, int data1, int addr, uint32_t offset, int op, int is64, int returns) {
  uint64_t lanes = rpl_exec(w), misaligned = 0;
  uint32_t address[RPL_LANES], width = is64 ? 8 : 4;
  if (addresses_of(w, inst, RPL_ATOMIC, addr, offset, lanes, width, address)) return 1;
  RPL_FOR_LANES(lanes, l) if (address[l] % width) misaligned |= 1ull << l;
  if (misaligned) {
    uint64_t wide[RPL_LANES];
    for (int l = 0; l < RPL_LANES; l++) wide[l] = address[l];
    return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, RPL_ATOMIC, width, misaligned, wide, 0);
  }
  trace_cycles(w, inst, count_cycles(w, inst, address, lanes, is64 ? 2 : 1));
  // The first operand is the comparand of DS_CMPST or the mask of DS_MSKOR, the second the new bits.
  int value = rpl_compares(op) ? data1 : data;
  int other = rpl_compares(op) ? data : op == RPL_MSKOR || op == RPL_WRAP ? data1 : -1;
  RPL_FOR_LANES(lanes, l) rpl_lane_atomic(w, dst, value, other, w->lds + address[l], l, op, is64, returns, 0);
  return 0;
}

int rpl_lds_exchange2(struct rpl_wave *w, int inst, int dst, int data0, int data1, int addr, uint32_t offset0, uint32_t offset1, int dwords) {
  uint64_t lanes = rpl_exec(w);
  uint32_t first[RPL_LANES], second[RPL_LANES];
  if (two_addresses(w, inst, RPL_ATOMIC, addr, offset0, offset1, -1, -1, dwords, lanes, first, second)) return 1;
  if (dwords > 2) __builtin_unreachable();  // DS_WRXCHG2 has 32-bit and 64-bit forms
  RPL_FOR_LANES(lanes, l) {
    uint32_t old[4] = {0}, given[4] = {0};
    for (int k = 0; k < dwords; k++) {
      old[k] = rpl_read32(w->lds + first[l] + 4 * k);
      old[dwords + k] = rpl_read32(w->lds + second[l] + 4 * k);
      given[k] = w->vgpr[data0 + k][l];
      given[dwords + k] = w->vgpr[data1 + k][l];
    }
    for (int k = 0; k < dwords; k++) rpl_write32(w->lds + first[l] + 4 * k, given[k]);
    for (int k = 0; k < dwords; k++) rpl_write32(w->lds + second[l] + 4 * k, given[dwords + k]);
    for (int k = 0; k < 2 * dwords; k++) w->vgpr[dst + k][l] = old[k];
  }
  return 0;
}

int rpl_lds_append(struct rpl_wave *w, int inst, int dst, uint32_t offset, int subtracts) {
  uint64_t lanes = rpl_exec(w);
  if (!lanes) return 0;
  uint32_t place = (w->sgpr[M0] & 0xffff) + offset, count = (uint32_t)__builtin_popcountll(lanes), address[RPL_LANES];
  uint64_t first = lanes & -lanes, wide[RPL_LANES];
  for (int l = 0; l < RPL_LANES; l++) wide[l] = address[l] = place;
  if ((uint64_t)place + 4 > w->lds_bytes) return rpl_raise(w, RPL_FAULT_LDS, inst, RPL_ATOMIC, 4, first, wide, w->lds_bytes);
  if (place % 4) return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, RPL_ATOMIC, 4, first, wide, 0);
  if (w->group) rpl_checked_lds(w, inst, RPL_ATOMIC, first, address, 4);
  trace_cycles(w, inst, count_cycles(w, inst, address, first, 1));
  uint32_t old = rpl_read32(w->lds + place);
  rpl_write32(w->lds + place, subtracts ? old - count : old + count);
  RPL_FOR_LANES(lanes, l) w->vgpr[dst][l] = old;
  return 0;
}
