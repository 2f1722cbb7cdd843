// Runtime functions other than memory: traps, clocks and data-parallel primitives (DPP).
#include <fenv.h>
#include <pthread.h>

#include "permuting.h"

int rpl_trap(struct rpl_wave *w, int inst, int id) {
  uint64_t exec = w->sgpr[126] | (uint64_t)w->sgpr[127] << 32;
  return rpl_raise(w, RPL_FAULT_TRAP, inst, RPL_LOAD, 0, exec, NULL, (uint64_t)(int64_t)id);
}

// Sets the rounding of the host by the field of MODE at `first_bit`, or to nearest even if negative.
void rpl_set_rounding(struct rpl_wave *w, int first_bit) {
  static const int modes[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  fesetround(first_bit < 0 ? FE_TONEAREST : modes[w->mode >> first_bit & 3]);
}

// A clock that is equal in every run: the instructions executed by this workgroup, not time.
int rpl_clock(struct rpl_wave *w, int inst, int sdst, int left) {
  (void)inst;
  uint64_t ticks = (uint64_t)(w->slice_end - w->slice - left);
  w->sgpr[sdst] = (uint32_t)ticks;
  w->sgpr[sdst + 1] = (uint32_t)(ticks >> 32);
  return 0;
}

// Registers beyond the allocated ones: hardware reads v0 and ignores writes.
int rpl_indexed_move(struct rpl_wave *w, int inst, int to, int from, uint32_t value, int to_bit, int from_bit, int all_lanes) {
  (void)inst;
  enum { ARCHITECTURAL_ROWS = 256, FIRST_MODE_BIT = 12 };
  uint32_t m0 = w->sgpr[124], mode = m0 >> FIRST_MODE_BIT;
  int index = (int)(m0 & 0xff), target_moves = to_bit >= 0 && mode >> to_bit & 1, source_moves = from_bit >= 0 && mode >> from_bit & 1;
  uint64_t lanes = all_lanes ? ~0ull : w->sgpr[126] | (uint64_t)w->sgpr[127] << 32;
  if (target_moves && (to += index) >= ARCHITECTURAL_ROWS) return 0;
  if (source_moves && (from += index) >= ARCHITECTURAL_ROWS) from = 0;
  const uint32_t *row = from < 0 ? NULL : w->vgpr[from];
  for (int lane = 0; lane < RPL_LANES; lane++)
    if (lanes >> lane & 1) w->vgpr[to][lane] = row ? row[lane] : value;
  return 0;
}

// Source lane of `lane` under a DPP control word, or -1 for none (CDNA3 ISA, section DPP).
static int dpp_source(int lane, int control) {
  int in_row = lane & 15, row = lane & ~15, n = control & 15;
  if (control < 0x100) return (lane & ~3) | ((control >> (2 * (lane & 3))) & 3);            // quad_perm
  if (control > 0x100 && control < 0x110) return in_row + n < 16 ? lane + n : -1;           // row_shl
  if (control > 0x110 && control < 0x120) return in_row - n >= 0 ? lane - n : -1;           // row_shr
  if (control > 0x120 && control < 0x130) return row + ((in_row - n) & 15);                 // row_ror
  if (control >= 0x150 && control < 0x160) return row + n;                                  // row_newbcast, row_share
  if (control >= 0x160 && control < 0x170) return row + (in_row ^ n);                       // row_xmask
  switch (control) {
    case 0x130: return lane < 63 ? lane + 1 : -1;   // wave_shl
    case 0x134: return (lane + 1) & 63;             // wave_rol
    case 0x138: return lane > 0 ? lane - 1 : -1;    // wave_shr
    case 0x13c: return (lane - 1) & 63;             // wave_ror
    case 0x140: return row + 15 - in_row;           // row_mirror
    case 0x141: return (lane & ~7) + 7 - (lane & 7);  // row_half_mirror
    case 0x142: return lane >= 16 ? row - 1 : -1;   // row_bcast15
    case 0x143: return lane >= 32 ? 31 : -1;        // row_bcast31
    default: return -1;
  }
}

// Source lanes of each control word, so that an instruction computes none.
enum { CONTROLS = 0x170 };
static struct pattern { uint8_t from[RPL_LANES]; uint64_t has_source; } patterns[CONTROLS];

static void fill_patterns(void) {
  for (int control = 0; control < CONTROLS; control++)
    for (int lane = 0; lane < RPL_LANES; lane++) {
      int from = dpp_source(lane, control);
      patterns[control].from[lane] = (uint8_t)(from < 0 ? lane : from);
      patterns[control].has_source |= (uint64_t)(from >= 0) << lane;
    }
}

// Lanes that the masks of rows (16 lanes) and banks (4 lanes of each row) select.
static uint64_t selected_lanes(int row_mask, int bank_mask) {
  enum { ROWS = 4, ROW = 16, BANK = 4, ALL = 15 };
  if (row_mask == ALL && bank_mask == ALL) return RPL_ALL_LANES;
  uint64_t banks = 0, lanes = 0;
  for (int k = 0; k < ROWS; k++) banks |= (uint64_t)(bank_mask >> k & 1) * ALL << BANK * k;
  for (int k = 0; k < ROWS; k++) lanes |= (uint64_t)(row_mask >> k & 1) * banks << ROW * k;
  return lanes;
}

// Moves lanes of row `src` to row `dst`; returns the lanes that the instruction writes (to be combined with EXEC).
uint64_t rpl_dpp(struct rpl_wave *w, int dst, int src, int control, int row_mask, int bank_mask, int bound_ctrl, int inactive) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_patterns);
  const struct pattern *p = &patterns[control < CONTROLS ? control : CONTROLS - 1];
  uint64_t valid = control < CONTROLS ? p->has_source : 0, exec = rpl_exec(w);
  if (!inactive && exec != rpl_all_lanes(w)) valid &= rpl_pull_bits(exec, p->from);
  rpl_pull(w->vgpr[dst], w->vgpr[src], p->from, valid);
  return selected_lanes(row_mask, bank_mask) & (bound_ctrl ? RPL_ALL_LANES : valid);
}

uint64_t rpl_dpp8(struct rpl_wave *w, int dst, int src, int selectors, int inactive) {
  enum { GROUP = 8, SELECTOR_BITS = 3 };
  uint64_t exec = rpl_exec(w);
  uint8_t from[RPL_LANES];
  for (int lane = 0; lane < RPL_LANES; lane++)
    from[lane] = (uint8_t)((lane & ~(GROUP - 1)) | (selectors >> SELECTOR_BITS * (lane % GROUP) & (GROUP - 1)));
  rpl_pull(w->vgpr[dst], w->vgpr[src], from, inactive ? RPL_ALL_LANES : rpl_pull_bits(exec, from));
  return exec;
}
