// GLOBAL, FLAT and SMEM: vector and scalar loads, stores and atomics of device memory.
#include "atomics.h"
#include "checks.h"

static void addresses_of(const struct rpl_wave *w, int addr, uint64_t base, int64_t offset, int mode, uint64_t *out) {
  const uint32_t *low = w->vgpr[addr];
  uint64_t start = base + (uint64_t)offset;
  if (mode == RPL_ADDR_SGPR_PLUS_VGPR32) {
    for (int l = 0; l < RPL_LANES; l++) out[l] = start + low[l];
    return;
  }
  const uint32_t *high = w->vgpr[addr + 1];
  for (int l = 0; l < RPL_LANES; l++) out[l] = ((uint64_t)high[l] << 32 | low[l]) + start;
}

static int contiguous(const uint64_t *address, uint32_t width) {
  uint64_t differs = 0;
  for (uint64_t l = 1; l < RPL_LANES; l++) differs |= (address[l] - address[l - 1]) ^ width;
  return !differs;
}

// `dwords` is constant at every call, so that the copy between memory order and register order is unrolled.
static inline __attribute__((always_inline)) void load_row(struct rpl_wave *w, int dst, const uint8_t *p, int dwords) {
  for (int k = 0; k < dwords; k++)
    for (int l = 0; l < RPL_LANES; l++) w->vgpr[dst + k][l] = rpl_read32(p + 4 * (l * dwords + k));
}

static inline __attribute__((always_inline)) void store_row(const struct rpl_wave *w, int data, uint8_t *p, int dwords) {
  for (int l = 0; l < RPL_LANES; l++)
    for (int k = 0; k < dwords; k++) rpl_write32(p + 4 * (l * dwords + k), w->vgpr[data + k][l]);
}

// Prefetches the memory that an instruction of a loop will access next, if it moved by the same distance twice: kernels that walk
// through memory with a long stride would wait for each line.
static void prefetch_next(int inst, uint64_t address, uint32_t bytes, int is_store) {
  enum { ENTRIES = 256, LINE = 64 };
  static _Thread_local struct { uint64_t last, stride; } walks[ENTRIES];
  uint64_t stride = address - walks[inst % ENTRIES].last;
  int steady = stride == walks[inst % ENTRIES].stride && stride + RPL_PAGE_BYTES / 4 > RPL_PAGE_BYTES / 2;
  walks[inst % ENTRIES].last = address;
  walks[inst % ENTRIES].stride = stride;
  if (!steady) return;
  for (uint32_t k = 0; k < bytes; k += LINE) {
    if (is_store) __builtin_prefetch((const void *)(address + stride + k), 1, 2);
    else __builtin_prefetch((const void *)(address + stride + k), 0, 2);
  }
}

static void load_contiguous(struct rpl_wave *w, int dst, const uint8_t *p, int dwords) {
  switch (dwords) {
    case 1: memcpy(w->vgpr[dst], p, sizeof w->vgpr[dst]); return;
    case 2: load_row(w, dst, p, 2); return;
    case 3: load_row(w, dst, p, 3); return;
    default: load_row(w, dst, p, 4);
  }
}

static void store_contiguous(const struct rpl_wave *w, int data, uint8_t *p, int dwords) {
  switch (dwords) {
    case 1: memcpy(p, w->vgpr[data], sizeof w->vgpr[data]); return;
    case 2: store_row(w, data, p, 2); return;
    case 3: store_row(w, data, p, 3); return;
    default: store_row(w, data, p, 4);
  }
}

int rpl_global_load(struct rpl_wave *w, int inst, int dst, int addr, uint64_t base, int64_t offset, int mode, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w), address[RPL_LANES];
  uint32_t width = rpl_width(kind, dwords);
  addresses_of(w, addr, base, offset, mode, address);
  if (rpl_resolve(w, inst, RPL_LOAD, mode, lanes, address, width)) return 1;
  w->machine->counters.flat_read_waves++;
  w->machine->counters.load_bytes += width * (uint64_t)__builtin_popcountll(lanes);
  if (lanes == RPL_ALL_LANES && kind == RPL_B32 && contiguous(address, width)) {
    prefetch_next(inst, address[0], RPL_LANES * width, 0);
    load_contiguous(w, dst, (const uint8_t *)address[0], dwords);
  } else
    RPL_FOR_LANES(lanes, l) rpl_lane_load(w, dst, l, (const uint8_t *)address[l], kind, dwords);
  return 0;
}

int rpl_global_store(struct rpl_wave *w, int inst, int data, int addr, uint64_t base, int64_t offset, int mode, int kind, int dwords) {
  uint64_t lanes = rpl_exec(w), address[RPL_LANES];
  uint32_t width = rpl_width(kind, dwords);
  addresses_of(w, addr, base, offset, mode, address);
  rpl_checked_store(w, data, kind);
  if (rpl_resolve(w, inst, RPL_STORE, mode, lanes, address, width)) return 1;
  w->machine->counters.flat_write_waves++;
  w->machine->counters.store_bytes += width * (uint64_t)__builtin_popcountll(lanes);
  if (lanes == RPL_ALL_LANES && kind == RPL_B32 && contiguous(address, width)) {
    prefetch_next(inst, address[0], RPL_LANES * width, 1);
    store_contiguous(w, data, (uint8_t *)address[0], dwords);
  } else
    RPL_FOR_LANES(lanes, l) rpl_lane_store(w, data, l, (uint8_t *)address[l], kind, dwords);
  return 0;
}

int rpl_global_atomic(struct rpl_wave *w, int inst, int dst, int data, int addr, uint64_t base, int64_t offset, int mode, int op, int is64, int returns) {
  uint64_t lanes = rpl_exec(w), address[RPL_LANES], misaligned = 0;
  uint32_t width = is64 ? 8 : 4;
  struct rpl_counters *c = &w->machine->counters;
  uint64_t accesses = c->atomic_accesses, segments = c->atomic_segments;
  addresses_of(w, addr, base, offset, mode, address);
  if (rpl_resolve(w, inst, RPL_ATOMIC, mode, lanes, address, width)) return 1;
  if (returns) {
    c->returning_accesses += c->atomic_accesses - accesses;
    c->returning_segments += c->atomic_segments - segments;
  }
  RPL_FOR_LANES(lanes, l) if (address[l] % width) misaligned |= 1ull << l;
  if (misaligned) return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, RPL_ATOMIC, width, misaligned, address, 0);
  w->machine->counters.flat_atomic_waves++;
  w->machine->counters.atomic_operations += (uint64_t)__builtin_popcountll(lanes);
  int comparand = rpl_compares(op) ? data + (is64 ? 2 : 1) : -1;
  int shared = (int)w->machine->concurrent;
  RPL_FOR_LANES(lanes, l) rpl_lane_atomic(w, dst, data, comparand, (uint8_t *)address[l], l, op, is64, returns, shared);
  return 0;
}

static void scalar_copy(struct rpl_wave *w, int inst, int sdst, uint64_t address, int dwords) {
  if (w->trace) rpl_trace_scalar(w, inst, address, 4 * (uint32_t)dwords);
  memcpy(&w->sgpr[sdst], (const void *)address, 4 * (size_t)dwords);
}

int rpl_scalar_load(struct rpl_wave *w, int inst, int sdst, uint64_t address, int dwords) {
  rpl_checked_scalar_alignment(w, inst, address, 4 * (uint32_t)dwords);
  address &= ~3ull;  // the scalar cache ignores the two lowest bits
  if (rpl_check_scalar(w, inst, address, 4 * (uint32_t)dwords)) return 1;
  scalar_copy(w, inst, sdst, address, dwords);
  return 0;
}

// Checks and traces a uniform access that may write; the caller executes it.
static int resolve_scalar(struct rpl_wave *w, int inst, int access, uint64_t address, uint32_t width) {
  uint64_t addresses[RPL_LANES] = {address};
  if (access == RPL_ATOMIC && address % width) return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, access, width, 1, addresses, 0);
  if (rpl_check(w, inst, access, 1, addresses, width)) return 1;
  if (w->trace) rpl_trace_scalar(w, inst, address, width);
  return 0;
}

int rpl_scalar_store(struct rpl_wave *w, int inst, int sdata, uint64_t address, int dwords) {
  address &= ~3ull;
  if (resolve_scalar(w, inst, RPL_STORE, address, 4 * (uint32_t)dwords)) return 1;
  memcpy((void *)address, &w->sgpr[sdata], 4 * (size_t)dwords);
  return 0;
}

int rpl_scalar_atomic(struct rpl_wave *w, int inst, int sdata, uint64_t address, int op, int is64, int returns) {
  if (resolve_scalar(w, inst, RPL_ATOMIC, address, is64 ? 8 : 4)) return 1;
  int shared = (int)w->machine->concurrent, other = op == RPL_CMPSWAP;
  const uint32_t *s = &w->sgpr[sdata];
  uint64_t old;
  if (is64) {
    uint64_t data = (uint64_t)s[1] << 32 | s[0], comparand = other ? (uint64_t)s[3] << 32 | s[2] : 0;
    old = rpl_modify64((uint64_t *)address, op, data, comparand, shared);
  } else {
    old = rpl_modify32((uint32_t *)address, op, s[0], other ? s[1] : 0, shared);
  }
  if (!returns) return 0;
  w->sgpr[sdata] = (uint32_t)old;
  if (is64) w->sgpr[sdata + 1] = (uint32_t)(old >> 32);
  return 0;
}

// Returns the address of a scalar buffer access and sets `valid` to the bytes up to the end of the buffer.
static uint64_t scalar_place(const struct rpl_wave *w, int srsrc, uint32_t offset, uint64_t *valid) {
  const uint32_t *v = &w->sgpr[srsrc];
  uint64_t base = ((uint64_t)(v[1] & 0xffff) << 32 | v[0]) & ~3ull, stride = v[1] >> 16 & 0x3fff;
  uint64_t bytes = stride ? stride * v[2] : v[2], start = offset & ~3u;
  *valid = start >= bytes ? 0 : bytes - start;
  return base + start;
}

int rpl_scalar_buffer_store(struct rpl_wave *w, int inst, int sdata, int srsrc, uint32_t offset, int dwords) {
  uint64_t valid, wanted = 4 * (uint64_t)dwords, address = scalar_place(w, srsrc, offset, &valid);
  int stored = (int)((valid < wanted ? valid : wanted) / 4);  // dwords past the end are dropped
  return stored ? rpl_scalar_store(w, inst, sdata, address, stored) : 0;
}

int rpl_scalar_buffer_atomic(struct rpl_wave *w, int inst, int sdata, int srsrc, uint32_t offset, int op, int is64, int returns) {
  uint64_t valid, address = scalar_place(w, srsrc, offset, &valid), width = is64 ? 8 : 4;
  if (valid >= width) return rpl_scalar_atomic(w, inst, sdata, address, op, is64, returns);
  if (returns) memset(&w->sgpr[sdata], 0, width);
  return 0;
}

int rpl_scalar_buffer_load(struct rpl_wave *w, int inst, int sdst, int srsrc, uint32_t offset, int dwords) {
  uint64_t valid, wanted = 4 * (uint64_t)dwords, address = scalar_place(w, srsrc, offset, &valid);
  int loaded = (int)((valid < wanted ? valid : wanted) / 4);  // dwords past the end read as zero
  if (loaded && rpl_check_scalar(w, inst, address, 4 * (uint32_t)loaded)) return 1;
  if (loaded) scalar_copy(w, inst, sdst, address, loaded);
  memset(&w->sgpr[sdst + loaded], 0, 4 * (size_t)(dwords - loaded));
  return 0;
}
