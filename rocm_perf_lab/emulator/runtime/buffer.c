// MUBUF: buffer resources with range checks and swizzled addressing. Typed accesses are in formats.c.
#include "atomics.h"
#include "buffer.h"
#include "checks.h"
#include "coalescing.h"

enum { SWIZZLE_ENABLE = 1u << 31, ADD_TID_ENABLE = 1u << 23, ELEMENT_BYTES = 4, WIDE_STRIDE_SHIFT = 14 };

struct resource {
  uint64_t base;
  uint32_t stride, records, index_stride;
  int swizzled, add_lane, range_check;
};

// How a resource checks ranges: as its addressing implies, or by its field OOB_SELECT (RDNA2 ISA, section "Range checking").
enum range_check { BY_RECORD_AND_OFFSET, BY_RECORD, IF_EMPTY, BY_OFFSET, BY_ADDRESSING };

static struct resource selecting_resource_of(const uint32_t *v) {
  return (struct resource){(uint64_t)(v[1] & 0xffff) << 32 | v[0], v[1] >> 16 & 0x3fff, v[2], 8u << (v[3] >> 21 & 3),
                           !!(v[1] & SWIZZLE_ENABLE), !!(v[3] & ADD_TID_ENABLE), (int)(v[3] >> 28 & 3)};
}

static struct resource resource_of(const uint32_t *v, int typed) {
  struct resource r = {(uint64_t)(v[1] & 0xffff) << 32 | v[0], v[1] >> 16 & 0x3fff, v[2], 8u << (v[3] >> 21 & 3),
                       !!(v[1] & SWIZZLE_ENABLE), !!(v[3] & ADD_TID_ENABLE), BY_ADDRESSING};
  if (r.add_lane && !typed) r.stride |= (v[3] >> 15 & 15) << WIDE_STRIDE_SHIFT;  // the data format holds its upper bits
  return r;
}

static uint64_t within(const struct resource *r, uint32_t index, uint64_t offset) {
  if (!r->swizzled) return (uint64_t)index * r->stride + offset;
  uint64_t group = index / r->index_stride, element = offset / ELEMENT_BYTES;
  return (group * r->stride + element * ELEMENT_BYTES) * r->index_stride + (uint64_t)(index % r->index_stride) * ELEMENT_BYTES +
         offset % ELEMENT_BYTES;
}

static int in_range(const struct resource *r, uint32_t index, uint64_t in_record, uint32_t soffset, uint64_t end) {
  switch (r->range_check) {
    case BY_RECORD_AND_OFFSET: return index < r->records && in_record + end <= r->stride;
    case BY_RECORD: return index < r->records;
    case IF_EMPTY: return r->records != 0;
    default: return r->swizzled && r->stride ? index < r->records && in_record + end <= r->stride : in_record + soffset + end <= r->records;
  }
}

// GCN and CDNA ISA guides, section "Buffer addressing". Buffers with an index are checked record by record, others byte by byte:
// they are out of range if offset >= num_records - soffset. Tensile's kernels rely on the latter. Scratch buffers (lane ids for
// indices) are not checked.
int rpl_buffer_addresses(struct rpl_wave *w, int inst, int access, int typed, int srsrc, int vindex, int voffset, uint32_t soffset,
                         int32_t offset, uint32_t element, int elements, struct rpl_buffer_access *out) {
  const uint32_t *words = &w->sgpr[srsrc & ~RPL_RANGE_SELECT];
  struct resource r = srsrc & RPL_RANGE_SELECT ? selecting_resource_of(words) : resource_of(words, typed);
  int by_record = vindex >= 0 && r.stride, unchecked = r.add_lane && vindex < 0;
  memset(out->lanes, 0, sizeof out->lanes);
  RPL_FOR_LANES(rpl_exec(w), l) {
    uint32_t index = (vindex < 0 ? 0 : w->vgpr[vindex][l]) + (r.add_lane ? (uint32_t)l : 0);
    uint64_t in_record = (voffset < 0 ? 0 : (uint64_t)w->vgpr[voffset][l]) + (uint32_t)offset;
    out->address[l] = r.base + soffset + within(&r, index, in_record);
    for (int k = 0; k < elements; k++)
      if (r.range_check != BY_ADDRESSING ? in_range(&r, index, in_record, soffset, (uint64_t)(k + 1) * element)
          : unchecked || (by_record ? index < r.records : in_record + soffset + (uint64_t)(k + 1) * element <= r.records))
        out->lanes[k] |= 1ull << l;
  }
  // Lanes are in range for a prefix of their elements; check each part against the allocations.
  for (int k = elements - 1; k >= 0; k--) {
    uint64_t exactly = out->lanes[k] & ~(k + 1 < elements ? out->lanes[k + 1] : 0);
    if (rpl_check(w, inst, access, exactly, out->address, (uint32_t)(k + 1) * element)) return 1;
  }
  rpl_count_requests(w, access, out->lanes[0], out->address, element * (uint32_t)elements);
  if (w->trace) rpl_trace_vector(w, inst, access, out->lanes[0], out->address, element * (uint32_t)elements);
  return 0;
}

// Scratch through a buffer resource (processors without architected flat scratch): the resource interleaves the lanes, so a scalar
// offset counts the bytes of all lanes.
static int is_private(const struct rpl_wave *w, int srsrc) {
  return (w->sgpr[(srsrc & ~RPL_RANGE_SELECT) + 1] & 0xffff) == RPL_PRIVATE_RESOURCE;
}

static int private_index(struct rpl_wave *w, int inst, int access) {
  return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, access, 0, 0, NULL, 0);
}

int rpl_buffer_load(struct rpl_wave *w, int inst, int dst, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int kind, int dwords) {
  if (is_private(w, srsrc))
    return vindex < 0 ? rpl_scratch_load(w, inst, dst, voffset, soffset / w->lane_count, offset, kind, dwords) : private_index(w, inst, RPL_LOAD);
  struct rpl_buffer_access access;
  int wide = (kind & RPL_KIND_MASK) == RPL_B32, elements = wide ? dwords : 1;
  uint32_t element = wide ? 4 : rpl_width(kind, 1);
  if (rpl_buffer_addresses(w, inst, RPL_LOAD, RPL_UNTYPED, srsrc, vindex, voffset, soffset, offset, element, elements, &access)) return 1;
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
  if (is_private(w, srsrc))
    return vindex < 0 ? rpl_scratch_store(w, inst, data, voffset, soffset / w->lane_count, offset, kind, dwords) : private_index(w, inst, RPL_STORE);
  struct rpl_buffer_access access;
  int wide = (kind & RPL_KIND_MASK) == RPL_B32, elements = wide ? dwords : 1;
  uint32_t element = wide ? 4 : rpl_width(kind, 1);
  rpl_checked_store(w, data, kind);
  if (rpl_buffer_addresses(w, inst, RPL_STORE, RPL_UNTYPED, srsrc, vindex, voffset, soffset, offset, element, elements, &access)) return 1;
  w->machine->counters.buffer_write_waves++;
  for (int k = 0; k < elements; k++) {
    w->machine->counters.store_bytes += element * (uint64_t)__builtin_popcountll(access.lanes[k]);
    RPL_FOR_LANES(access.lanes[k], l) rpl_lane_store(w, data + k, l, (uint8_t *)access.address[l] + 4 * k, kind, 1);
  }
  return 0;
}

int rpl_buffer_atomic(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int op, int is64, int returns) {
  struct rpl_buffer_access access;
  uint32_t width = is64 ? 8 : 4;
  struct rpl_counters *c = &w->machine->counters;
  uint64_t accesses = c->atomic_accesses, segments = c->atomic_segments;
  if (rpl_buffer_addresses(w, inst, RPL_ATOMIC, RPL_UNTYPED, srsrc, vindex, voffset, soffset, offset, width, 1, &access)) return 1;
  uint64_t lanes = access.lanes[0], misaligned = 0;
  RPL_FOR_LANES(lanes, l) if (access.address[l] % width) misaligned |= 1ull << l;
  if (misaligned) return rpl_raise(w, RPL_FAULT_MISALIGNED, inst, RPL_ATOMIC, width, misaligned, access.address, 0);
  if (returns) {
    c->returning_accesses += c->atomic_accesses - accesses;
    c->returning_segments += c->atomic_segments - segments;
  }
  w->machine->counters.buffer_atomic_waves++;
  w->machine->counters.atomic_operations += (uint64_t)__builtin_popcountll(lanes);
  int comparand = rpl_compares(op) ? data + (is64 ? 2 : 1) : -1;
  int shared = (int)w->machine->concurrent;
  RPL_FOR_LANES(lanes, l) rpl_lane_atomic(w, data, data, comparand, (uint8_t *)access.address[l], l, op, is64, returns, shared);
  if (returns)
    RPL_FOR_LANES(rpl_exec(w) & ~lanes, l)
      for (int k = 0; k < (is64 ? 2 : 1); k++) w->vgpr[data + k][l] = 0;
  return 0;
}
