// Read-modify-write operations on one lane's 32 or 64 bits, plain or atomic on the host.
#ifndef RPL_ATOMICS_H
#define RPL_ATOMICS_H
#include <math.h>
#include "access.h"

static inline float rpl_f32(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t rpl_bits32(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static inline double rpl_f64(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline uint64_t rpl_bits64(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }

static inline uint16_t rpl_add_f16(uint16_t a, uint16_t b) {
  _Float16 x, y;
  memcpy(&x, &a, 2);
  memcpy(&y, &b, 2);
  x += y;
  memcpy(&a, &x, 2);
  return a;
}

static inline uint16_t rpl_add_bf16(uint16_t a, uint16_t b) {
  uint32_t sum = rpl_bits32(rpl_f32((uint32_t)a << 16) + rpl_f32((uint32_t)b << 16));
  if ((sum & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(sum >> 16 | 0x40);  // stays NaN
  return (uint16_t)((sum + 0x7fff + (sum >> 16 & 1)) >> 16);                   // to nearest, ties to even
}

// `other`: the comparand of RPL_CMPSWAP and RPL_FCMPSWAP, the second operand of RPL_MSKOR and RPL_WRAP.
static inline uint32_t rpl_apply32(int op, uint32_t memory, uint32_t data, uint32_t other) {
  switch (op) {
    case RPL_SWAP: return data;
    case RPL_CMPSWAP: return memory == other ? data : memory;
    case RPL_FCMPSWAP: return rpl_f32(memory) == rpl_f32(other) ? data : memory;
    case RPL_CSUB: return memory < data ? 0 : memory - data;
    case RPL_ADD: return memory + data;
    case RPL_SUB: return memory - data;
    case RPL_RSUB: return data - memory;
    case RPL_SMIN: return (int32_t)data < (int32_t)memory ? data : memory;
    case RPL_UMIN: return data < memory ? data : memory;
    case RPL_SMAX: return (int32_t)data > (int32_t)memory ? data : memory;
    case RPL_UMAX: return data > memory ? data : memory;
    case RPL_AND: return memory & data;
    case RPL_OR: return memory | data;
    case RPL_XOR: return memory ^ data;
    case RPL_INC: return memory >= data ? 0 : memory + 1;
    case RPL_DEC: return memory == 0 || memory > data ? data : memory - 1;
    case RPL_WRAP: return memory >= data ? memory - data : memory + other;
    case RPL_FADD: return rpl_bits32(rpl_f32(memory) + rpl_f32(data));
    case RPL_FMIN: return rpl_bits32(fminf(rpl_f32(memory), rpl_f32(data)));
    case RPL_FMAX: return rpl_bits32(fmaxf(rpl_f32(memory), rpl_f32(data)));
    case RPL_PK_ADD_F16:
      return (uint32_t)rpl_add_f16(memory >> 16, data >> 16) << 16 | rpl_add_f16((uint16_t)memory, (uint16_t)data);
    case RPL_PK_ADD_BF16:
      return (uint32_t)rpl_add_bf16(memory >> 16, data >> 16) << 16 | rpl_add_bf16((uint16_t)memory, (uint16_t)data);
    default: return (memory & ~data) | other;  // RPL_MSKOR
  }
}

static inline uint64_t rpl_apply64(int op, uint64_t memory, uint64_t data, uint64_t other) {
  switch (op) {
    case RPL_SWAP: return data;
    case RPL_CMPSWAP: return memory == other ? data : memory;
    case RPL_FCMPSWAP: return rpl_f64(memory) == rpl_f64(other) ? data : memory;
    case RPL_ADD: return memory + data;
    case RPL_SUB: return memory - data;
    case RPL_RSUB: return data - memory;
    case RPL_SMIN: return (int64_t)data < (int64_t)memory ? data : memory;
    case RPL_UMIN: return data < memory ? data : memory;
    case RPL_SMAX: return (int64_t)data > (int64_t)memory ? data : memory;
    case RPL_UMAX: return data > memory ? data : memory;
    case RPL_AND: return memory & data;
    case RPL_OR: return memory | data;
    case RPL_XOR: return memory ^ data;
    case RPL_INC: return memory >= data ? 0 : memory + 1;
    case RPL_DEC: return memory == 0 || memory > data ? data : memory - 1;
    case RPL_FADD: return rpl_bits64(rpl_f64(memory) + rpl_f64(data));
    case RPL_FMIN: return rpl_bits64(fmin(rpl_f64(memory), rpl_f64(data)));
    case RPL_FMAX: return rpl_bits64(fmax(rpl_f64(memory), rpl_f64(data)));
    default: return (memory & ~data) | other;  // RPL_MSKOR
  }
}

static inline int rpl_compares(int op) { return op == RPL_CMPSWAP || op == RPL_FCMPSWAP; }

static inline uint32_t rpl_modify32(uint32_t *p, int op, uint32_t data, uint32_t other, int shared) {
  uint32_t old = *p;
  if (!shared) *p = rpl_apply32(op, old, data, other);
  else while (!__atomic_compare_exchange_n(p, &old, rpl_apply32(op, old, data, other), 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
  return old;
}

static inline uint64_t rpl_modify64(uint64_t *p, int op, uint64_t data, uint64_t other, int shared) {
  uint64_t old = *p;
  if (!shared) *p = rpl_apply64(op, old, data, other);
  else while (!__atomic_compare_exchange_n(p, &old, rpl_apply64(op, old, data, other), 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
  return old;
}

static inline uint64_t rpl_pair(const struct rpl_wave *w, int row, uint64_t lane) {
  // NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): operands of an instruction are valid rows
  return (uint64_t)w->vgpr[row + 1][lane] << 32 | w->vgpr[row][lane];
}

// One lane: memory at `p` with the VGPRs from `data` and `other` on; the old value goes to `dst` if requested.
static inline void rpl_lane_atomic(struct rpl_wave *w, int dst, int data, int other, uint8_t *p, uint64_t lane, int op,
                                   int is64, int returns, int shared) {
  if (is64) {
    uint64_t second = other >= 0 ? rpl_pair(w, other, lane) : 0;
    uint64_t old = rpl_modify64((uint64_t *)p, op, rpl_pair(w, data, lane), second, shared);
    if (!returns) return;
    w->vgpr[dst][lane] = (uint32_t)old;
    w->vgpr[dst + 1][lane] = (uint32_t)(old >> 32);
  } else {
    uint32_t old = rpl_modify32((uint32_t *)p, op, w->vgpr[data][lane], other >= 0 ? w->vgpr[other][lane] : 0, shared);
    if (returns) w->vgpr[dst][lane] = old;
  }
}
#endif
