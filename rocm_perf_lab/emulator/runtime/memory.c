// Device memory: mapping it at chosen addresses, and checking every access against the registry of allocations.
#define _GNU_SOURCE
#include <sys/mman.h>
#include "access.h"
#include "checks.h"
#include "rewind.h"
#include "coalescing.h"
#include "footprint.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

// Maps whole zeroed pages at `address`. Returns 1 if the range is in use or the host has too little memory.
int rpl_memory_map(uint64_t address, uint64_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void *at = (void *)address, *got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got == MAP_FAILED) return 1;
  if (got == at) {
    madvise(at, bytes, MADV_HUGEPAGE);  // fewer page faults; a failure only costs time
    return 0;
  }
  munmap(got, bytes);  // Linux without MAP_FIXED_NOREPLACE uses the address as a hint
  return 1;
}

// Frees the pages but reserves the addresses, so that a use after free is detected during the machine's lifetime.
int rpl_memory_retire(uint64_t address, uint64_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap((void *)address, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED;
}

// Uses small pages for memory of which few pages are accessed.
int rpl_memory_sparse(uint64_t address, uint64_t bytes) { return madvise((void *)address, bytes, MADV_NOHUGEPAGE); }

// Frees the pages but keeps them mapped; they are zero on next use.
int rpl_memory_discard(uint64_t address, uint64_t bytes) { return madvise((void *)address, bytes, MADV_DONTNEED); }

int rpl_memory_unmap(uint64_t address, uint64_t bytes) { return munmap((void *)address, bytes); }

// Copies the written pages back from `image`, marks them as not written, and returns their number.
uint64_t rpl_memory_restore(uint64_t address, const uint8_t *image, uint8_t *written, uint64_t pages) {
  uint64_t copied = 0;
  for (uint64_t page = 0; page < pages; page++) {
    if (page % 8 == 0 && pages - page >= 8) {
      uint64_t eight;
      memcpy(&eight, written + page, sizeof eight);
      if (!eight) {
        page += 7;
        continue;
      }
    }
    if (!written[page]) continue;
    memcpy((uint8_t *)address + page * RPL_PAGE_BYTES, image + page * RPL_PAGE_BYTES, RPL_PAGE_BYTES);
    written[page] = 0;
    copied++;
  }
  return copied;
}

int rpl_raise(struct rpl_wave *w, int kind, int inst, int access, uint32_t width, uint64_t lanes,
              const uint64_t *addresses, uint64_t detail) {
  struct rpl_fault *fault = &w->machine->fault;
  fault->kind = (uint32_t)kind;
  fault->inst = inst;
  fault->access = (uint32_t)access;
  fault->width_bytes = width;
  fault->lanes = lanes;
  fault->detail = detail;
  memcpy(fault->workgroup, w->workgroup, sizeof fault->workgroup);
  fault->wave = w->wave_in_workgroup;
  if (addresses) memcpy(fault->addresses, addresses, sizeof fault->addresses);
  w->status = RPL_FAULT;
  return 1;
}

int rpl_illegal(struct rpl_wave *w, int inst) {
  return rpl_raise(w, RPL_FAULT_ILLEGAL, inst, RPL_LOAD, 0, 0, NULL, w->resume);
}

static int inside(const struct rpl_allocation *a, uint64_t low, uint64_t high) {
  return a->freed != RPL_FREED && low >= a->begin && high <= a->end && low < high;
}

static int find(struct rpl_machine *m, uint64_t low, uint64_t high) {
  if (m->last_hit < m->allocation_count && inside(&m->allocations[m->last_hit], low, high)) return 1;
  uint64_t first = 0, after = m->allocation_count;
  while (first < after) {
    uint64_t middle = (first + after) / 2;
    if (m->allocations[middle].end <= low) first = middle + 1;
    else after = middle;
  }
  if (first == m->allocation_count || !inside(&m->allocations[first], low, high)) return 0;
  m->last_hit = first;
  return 1;
}

// The same for a range that goes on in read-only memory, or behind it.
static int find_joined(struct rpl_machine *m, uint64_t low, uint64_t high) {
  if (!find(m, low, low + 1)) return 0;
  const struct rpl_allocation *a = &m->allocations[m->last_hit], *last = &m->allocations[m->allocation_count - 1];
  while (a->end < high && a < last && a[1].begin == a->end && (a->freed == RPL_READ_ONLY || a[1].freed == RPL_READ_ONLY)) a++;
  return low < high && high <= a->end;
}

int rpl_find(struct rpl_machine *m, uint64_t low, uint64_t high) {
  while (!find(m, low, high) && !find_joined(m, low, high))
    if (!m->miss || !m->miss(m, low, high)) return 0;
  return 1;
}

// After rpl_find(): returns whether the range that it found is read-only.
static int is_read_only(const struct rpl_machine *m) { return m->allocations[m->last_hit].freed == RPL_READ_ONLY; }

static int may_access(struct rpl_machine *m, uint64_t low, uint64_t high, int writes) {
  if (!rpl_find(m, low, high)) return 0;
  while (writes && is_read_only(m))
    if (!m->miss || !m->miss(m, low, high) || !rpl_find(m, low, high)) return 0;
  return 1;
}

// Fills a page of a sparse buffer before the first access to it.
static void fill_page(const struct rpl_allocation *a, uint64_t address) {
  uint64_t page = address / RPL_PAGE_BYTES;
  uint8_t *filled = &a->filled[page - a->first_page];
  if (*filled) return;
  *filled = 1;
  a->fill(page * RPL_PAGE_BYTES);
}

// After rpl_find(), before an access: the pages of [address, address + width), at most a page, in the allocation that it found.
static void touch_pages(const struct rpl_machine *m, uint64_t address, uint64_t width, int writes) {
  const struct rpl_allocation *a = &m->allocations[m->last_hit];
  if (a->filled) {
    fill_page(a, address);
    fill_page(a, address + width - 1);
  }
  if (m->run != RPL_ONLY_RUN) rpl_rewind_touch(a->pages, m->run, address, width, writes);
  if (!a->written || !writes) return;
  a->written[address / RPL_PAGE_BYTES - a->first_page] = 1;
  a->written[(address + width - 1) / RPL_PAGE_BYTES - a->first_page] = 1;
}

// After rpl_find(): returns whether touch_pages() has to know of an access to the allocation that it found.
static int touches_pages(const struct rpl_machine *m, int writes) {
  return writes || m->run == RPL_SECOND_RUN || m->allocations[m->last_hit].filled;
}

int rpl_check(struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  if (!lanes) return 0;
  uint64_t low = ~0ull, high = 0;
  if (lanes == RPL_ALL_LANES) {
    for (int l = 0; l < RPL_LANES; l++) {
      low = address[l] < low ? address[l] : low;
      high = address[l] > high ? address[l] : high;
    }
  } else {
    for (int l = 0; l < RPL_LANES; l++) {
      int active = lanes >> l & 1;
      low = active && address[l] < low ? address[l] : low;
      high = active && address[l] > high ? address[l] : high;
    }
  }
  int writes = access != RPL_LOAD;
  uint64_t span = high + width - low;
  w->machine->counters.span_bytes += span < RPL_SPAN_LIMIT ? span : RPL_SPAN_LIMIT;
  w->machine->counters.address_sum += low;
  if (find(w->machine, low, high + width) && !(writes && is_read_only(w->machine))) {  // else lanes may be in several allocations
    int touches = touches_pages(w->machine, writes);
    if (touches && high + width - low <= RPL_PAGE_BYTES) touch_pages(w->machine, low, high + width - low, writes);
    else if (touches) RPL_FOR_LANES(lanes, l) touch_pages(w->machine, address[l], width, writes);
    if (w->machine->footprint) rpl_footprint_access(w, access, 0, lanes, address, width, low, high + width);
    if (w->group) rpl_checked_memory(w, inst, access, lanes, address, width);
    return 0;
  }
  uint64_t bad = 0, read_only = 0;
  RPL_FOR_LANES(lanes, l) {
    if (!may_access(w->machine, address[l], address[l] + width, writes)) {
      bad |= 1ull << l;
      read_only |= (uint64_t)(writes && rpl_find(w->machine, address[l], address[l] + width)) << l;
    } else {
      if (touches_pages(w->machine, writes)) touch_pages(w->machine, address[l], width, writes);
      if (w->machine->footprint) rpl_footprint_access(w, access, 0, 1ull << l, address, width, address[l], address[l] + width);
    }
  }
  if (bad) return rpl_raise(w, RPL_FAULT_MEMORY, inst, access, width, bad, address, bad == read_only);
  if (w->group) rpl_checked_memory(w, inst, access, lanes, address, width);
  return 0;
}

int rpl_check_scalar(struct rpl_wave *w, int inst, uint64_t address, uint32_t width) {
  uint64_t addresses[RPL_LANES] = {address};
  w->machine->counters.address_sum += address;
  if (rpl_find(w->machine, address, address + width)) {
    if (touches_pages(w->machine, 0)) touch_pages(w->machine, address, width, 0);
    if (w->machine->footprint) rpl_footprint_access(w, RPL_LOAD, 1, 1, addresses, width, address, address + width);
    if (w->group) rpl_checked_memory(w, inst, RPL_LOAD, 1, addresses, width);
    return 0;
  }
  return rpl_raise(w, RPL_FAULT_MEMORY, inst, RPL_LOAD, width, 1, addresses, 0);
}

int rpl_resolve(struct rpl_wave *w, int inst, int access, int mode, uint64_t lanes, uint64_t *address, uint32_t width) {
  uint64_t global = lanes;
  if (mode == RPL_ADDR_FLAT) {
    uint64_t lds = 0, bad_lds = 0, bad_scratch = 0, host[RPL_LANES];
    RPL_FOR_LANES(lanes, l) {
      uint64_t aperture = address[l] >> RPL_APERTURE_SHIFT, inner = address[l] & 0xffffffffu;
      if (aperture == RPL_LDS_APERTURE) {
        if (inner + width > w->lds_bytes) bad_lds |= 1ull << l;
        host[l] = (uint64_t)w->lds + inner;
        lds |= 1ull << l;
      } else if (aperture == RPL_SCRATCH_APERTURE) {
        if (inner + width > w->scratch_bytes) bad_scratch |= 1ull << l;
        host[l] = (uint64_t)w->scratch + l * w->scratch_bytes + inner;
      } else continue;
      global &= ~(1ull << l);
    }
    if (bad_lds) return rpl_raise(w, RPL_FAULT_LDS, inst, access, width, bad_lds, address, w->lds_bytes);
    if (bad_scratch) return rpl_raise(w, RPL_FAULT_SCRATCH, inst, access, width, bad_scratch, address, w->scratch_bytes);
    if (rpl_check(w, inst, access, global, address, width)) return 1;
    rpl_count_requests(w, access, global, address, width);
    if (w->trace) rpl_trace_vector(w, inst, access, global, address, width);
    if (w->group && lds) {
      uint32_t inner[RPL_LANES];
      for (int l = 0; l < RPL_LANES; l++) inner[l] = (uint32_t)address[l];
      rpl_checked_lds(w, inst, access, lds, inner, width);
    }
    RPL_FOR_LANES(lanes & ~global, l) address[l] = host[l];
    return 0;
  }
  if (rpl_check(w, inst, access, global, address, width)) return 1;
  rpl_count_requests(w, access, global, address, width);
  if (w->trace) rpl_trace_vector(w, inst, access, global, address, width);
  return 0;
}
