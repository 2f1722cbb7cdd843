// Accesses to dwords in short form, for those without problems: full dwords, of which at most two stores and two loads may still race.
// Dwords of a line that were always accessed together have one entry. All others are kept in cells; see checks.h.
#ifndef RPL_SHORT_CELLS_H
#define RPL_SHORT_CELLS_H
#include "checks.h"

enum { RPL_LINE_DWORDS = 16 };
// Wavefront (counted from 1), time, coherence and instruction of an access in 24, 24, 1 and 15 bits; 0: none.
typedef uint64_t rpl_access_entry;
struct rpl_short_cell { rpl_access_entry stores[2], loads[2]; };  // the latest first; stores[0] == RPL_IN_CELL: see the cell
struct rpl_line {
  struct rpl_short_cell all;  // of each dword that is not apart
  uint32_t epoch, apart;      // apart: a bit per dword with an own entry
  uint64_t padding[3];        // a line of the CPU's cache
};
#define RPL_IN_CELL (~(rpl_access_entry)0)

// An access of one wavefront.
struct rpl_short_access {
  rpl_access_entry entry;      // 0: only cells can keep it
  uint32_t kind;               // enum rpl_touch_kind
  uint32_t wave, first_wave, waves;  // first_wave: of its workgroup
  uint32_t passed, epoch;      // see struct rpl_group; epoch of the lines
  int is_lds;
};
struct rpl_short_access rpl_short_access_of(const struct rpl_group *g, const struct rpl_touch *touch, int is_lds);
// Adds an access to dwords. Returns 0 if it may race, or needs a cell; some dwords may have it already.
int rpl_short_add(struct rpl_line *lines, struct rpl_short_cell *dwords, uint64_t first, uint64_t count, const struct rpl_short_access *a);
// Moves a dword to its cell, if it is not there.
void rpl_short_expand(struct rpl_line *lines, struct rpl_short_cell *dwords, uint64_t dword, uint32_t epoch, struct rpl_cell *cell);
#endif
