// Shared by the memory helpers: EXEC, loops over lanes, one lane's access of any kind, the check of device addresses.
#ifndef RPL_ACCESS_H
#define RPL_ACCESS_H
#include <string.h>
#include "machine.h"

#define RPL_FOR_LANES(mask, lane) \
  for (uint64_t rest_ = (mask), lane = 0; rest_ && (lane = (uint64_t)__builtin_ctzll(rest_), 1); rest_ &= rest_ - 1)
enum { RPL_KIND_MASK = 7 };
enum { RPL_LDS_ZEROS = 16, RPL_LDS_DROPPED = 16 };  // bytes after the LDS of a workgroup: for loads, then for stores out of range
#define RPL_ALL_LANES (~0ull)

static inline uint64_t rpl_lanes_below(uint32_t count) { return count >= RPL_LANES ? RPL_ALL_LANES : (1ull << count) - 1; }
// Returns the lanes of a wavefront, which has 32 or 64 of them.
static inline uint64_t rpl_all_lanes(const struct rpl_wave *w) { return rpl_lanes_below(w->lane_count); }

static inline uint64_t rpl_exec(const struct rpl_wave *w) { return (uint64_t)w->sgpr[127] << 32 | w->sgpr[126]; }

static inline uint32_t rpl_width(int kind, int dwords) {
  switch (kind & RPL_KIND_MASK) {
    case RPL_U8: case RPL_I8: return 1;
    case RPL_U16: case RPL_I16: return 2;
    default: return 4 * (uint32_t)dwords;
  }
}

static inline uint32_t rpl_read32(const void *p) { uint32_t x; memcpy(&x, p, 4); return x; }
static inline void rpl_write32(void *p, uint32_t x) { memcpy(p, &x, 4); }

static inline uint32_t rpl_read_narrow(const uint8_t *p, int kind) {
  uint16_t half;
  switch (kind & RPL_KIND_MASK) {
    case RPL_U8: return *p;
    case RPL_I8: return (uint32_t)(int8_t)*p;
    default: memcpy(&half, p, 2); return (kind & RPL_KIND_MASK) == RPL_I16 ? (uint32_t)(int16_t)half : half;
  }
}

static inline void rpl_lane_load(struct rpl_wave *w, int dst, uint64_t lane, const uint8_t *p, int kind, int dwords) {
  if ((kind & RPL_KIND_MASK) == RPL_B32) {
    for (int k = 0; k < dwords; k++) w->vgpr[dst + k][lane] = rpl_read32(p + 4 * k);
    return;
  }
  uint32_t value = rpl_read_narrow(p, kind), old = kind & RPL_D16_CLEARS ? 0 : w->vgpr[dst][lane];
  if (kind & RPL_D16_LO) value = (old & 0xffff0000u) | (value & 0xffffu);
  else if (kind & RPL_D16_HI) value = (old & 0xffffu) | value << 16;
  w->vgpr[dst][lane] = value;
}

static inline void rpl_lane_store(const struct rpl_wave *w, int data, uint64_t lane, uint8_t *p, int kind, int dwords) {
  uint32_t value = w->vgpr[data][lane];
  if (kind & RPL_D16_HI) value >>= 16;
  uint16_t half = (uint16_t)value;
  switch (kind & RPL_KIND_MASK) {
    case RPL_U8: case RPL_I8: *p = (uint8_t)value; return;
    case RPL_U16: case RPL_I16: memcpy(p, &half, 2); return;
    default: for (int k = 0; k < dwords; k++) rpl_write32(p + 4 * k, w->vgpr[data + k][lane]);
  }
}

// Returns 0 if [address, address + width) of every active lane is in one live allocation; else records a fault and returns 1.
int rpl_check(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
// The same for one uniform address (scalar loads).
int rpl_check_scalar(struct rpl_wave *w, int inst, uint64_t address, uint32_t width);
// Converts flat addresses to host addresses: resolves the apertures of LDS and scratch, checks the others as above.
int rpl_resolve(struct rpl_wave *w, int inst, int access, int mode, uint64_t lanes, uint64_t *address, uint32_t width);
// Traces the lines of 128 bytes that the active lanes access with `width` bytes each; `access` is of enum rpl_access.
void rpl_trace_vector(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width);
// Traces the lines of 64 bytes of a scalar access.
void rpl_trace_scalar(struct rpl_wave *w, int inst, uint64_t address, uint32_t width);
#endif
