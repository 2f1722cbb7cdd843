// SCRATCH (each lane's private memory) and MUBUF (buffer resources with range checks).
#include "atomics.h"

// ---- scratch ----

// Hardware interleaves the lanes' scratch, so that lanes at the same offset touch neighbouring memory.
static void trace_scratch(struct rpl_wave *w, int inst, uint64_t lanes, uint32_t width, const uint64_t *inner) {
  uint64_t address[RPL_LANES];
  RPL_FOR_LANES(lanes, l) address[l] = (uint64_t)w->scratch + inner[l] * RPL_LANES + l * width;
  rpl_trace_segments(w, RPL_T_VMEM, inst, lanes, address, width);
}

static int scratch_pointers(struct rpl_wave *w, int inst, int access, int addr, uint32_t saddr, int32_t offset, uint64_t lanes,
                            uint32_t width, uint64_t *address) {
  uint64_t bad = 0, inner[RPL_LANES];
  RPL_FOR_LANES(lanes, l) {
    inner[l] = (uint32_t)((addr < 0 ? 0 : w->vgpr[addr][l]) + saddr + (uint32_t)offset);
    if (inner[l] + width > w->scratch_bytes) bad |= 1ull << l;
    address[l] = (uint64_t)w->scratch + l * w->scratch_bytes + inner[l];
  }
  if (bad) return rpl_raise(w, RPL_FAULT_SCRATCH, inst, access, width, bad, inner, w->scratch_bytes);
  if (w->trace) trace_scratch(w, inst, lanes, width, inner);
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

// ---- buffers ----

struct buffer_access {
  uint64_t lanes[4];              // lanes whose k-th dword (or narrow element) is inside the resource
  uint64_t address[RPL_LANES];
};

enum { SWIZZLE_ENABLE = 1u << 31, ADD_TID_ENABLE = 1u << 23 };

// CDNA3 ISA, "Buffer addressing": linear address = base + soffset + index * stride + voffset + offset. A buffer without
// swizzle is raw: each element is in range where its byte offset is below num_records.
static int buffer_addresses(struct rpl_wave *w, int inst, int access, int srsrc, int vindex, int voffset, uint32_t soffset,
                            int32_t offset, uint32_t element, int elements, struct buffer_access *out) {
  const uint32_t *v = &w->sgpr[srsrc];
  uint64_t base = (uint64_t)(v[1] & 0xffff) << 32 | v[0], stride = v[1] >> 16 & 0x3fff;
  if ((v[1] & SWIZZLE_ENABLE && stride) || v[3] & ADD_TID_ENABLE)
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, access, element, rpl_exec(w), NULL, 0);
  memset(out->lanes, 0, sizeof out->lanes);
  RPL_FOR_LANES(rpl_exec(w), l) {
    uint64_t index = vindex < 0 ? 0 : w->vgpr[vindex][l];
    uint64_t inner = index * stride + (voffset < 0 ? 0 : w->vgpr[voffset][l]) + (uint64_t)(uint32_t)offset + soffset;
    out->address[l] = base + inner;
    for (int k = 0; k < elements; k++)
      if (inner + (uint64_t)(k + 1) * element <= v[2]) out->lanes[k] |= 1ull << l;
  }
  // Lanes are in range for a prefix of their elements: check each such part against the allocations.
  for (int k = elements - 1; k >= 0; k--) {
    uint64_t exactly = out->lanes[k] & ~(k + 1 < elements ? out->lanes[k + 1] : 0);
    if (rpl_check(w, inst, access, exactly, out->address, (uint32_t)(k + 1) * element)) return 1;
  }
  if (w->trace) rpl_trace_segments(w, RPL_T_VMEM, inst, out->lanes[0], out->address, element * (uint32_t)elements);
  return 0;
}

int rpl_buffer_load(struct rpl_wave *w, int inst, int dst, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int kind, int dwords) {
  struct buffer_access access;
  int wide = (kind & RPL_KIND_MASK) == RPL_B32, elements = wide ? dwords : 1;
  uint32_t element = wide ? 4 : rpl_width(kind, 1);
  if (buffer_addresses(w, inst, RPL_LOAD, srsrc, vindex, voffset, soffset, offset, element, elements, &access)) return 1;
  w->machine->counters.buffer_read_waves++;
  static const uint8_t zero[4];
  for (int k = 0; k < elements; k++) {
    w->machine->counters.load_bytes += element * (uint64_t)__builtin_popcountll(access.lanes[k]);
    RPL_FOR_LANES(rpl_exec(w), l) {
      const uint8_t *p = access.lanes[k] >> l & 1 ? (const uint8_t *)access.address[l] + 4 * k : zero;
      rpl_lane_load(w, dst + k, l, p, kind, 1);
    }
  }
  return 0;
}

int rpl_buffer_store(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int kind, int dwords) {
  struct buffer_access access;
  int wide = (kind & RPL_KIND_MASK) == RPL_B32, elements = wide ? dwords : 1;
  uint32_t element = wide ? 4 : rpl_width(kind, 1);
  if (buffer_addresses(w, inst, RPL_STORE, srsrc, vindex, voffset, soffset, offset, element, elements, &access)) return 1;
  w->machine->counters.buffer_write_waves++;
  for (int k = 0; k < elements; k++) {
    w->machine->counters.store_bytes += element * (uint64_t)__builtin_popcountll(access.lanes[k]);
    RPL_FOR_LANES(access.lanes[k], l) rpl_lane_store(w, data + k, l, (uint8_t *)access.address[l] + 4 * k, kind, 1);
  }
  return 0;
}

int rpl_buffer_atomic(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int op, int is64, int returns) {
  struct buffer_access access;
  uint32_t width = is64 ? 8 : 4;
  if (buffer_addresses(w, inst, RPL_ATOMIC, srsrc, vindex, voffset, soffset, offset, width, 1, &access)) return 1;
  uint64_t lanes = access.lanes[0], misaligned = 0;
  RPL_FOR_LANES(lanes, l) if (access.address[l] % width) misaligned |= 1ull << l;
  if (misaligned) return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, RPL_ATOMIC, width, misaligned, access.address, 0);
  w->machine->counters.buffer_atomic_waves++;
  w->machine->counters.atomic_operations += (uint64_t)__builtin_popcountll(lanes);
  int comparand = op == RPL_CMPSWAP ? data + (is64 ? 2 : 1) : -1;
  int shared = (int)w->machine->concurrent;
  RPL_FOR_LANES(lanes, l) rpl_lane_atomic(w, data, data, comparand, (uint8_t *)access.address[l], l, op, is64, returns, shared);
  if (returns)
    RPL_FOR_LANES(rpl_exec(w) & ~lanes, l)
      for (int k = 0; k < (is64 ? 2 : 1); k++) w->vgpr[data + k][l] = 0;
  return 0;
}
