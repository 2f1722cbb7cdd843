// Allocations of the application, as its HIP calls made them: exact size, kind, call sites. Freed ones stay known, and their memory is
// given back late, so that stale accesses are seen.
#ifndef RPL_ALLOCATIONS_H
#define RPL_ALLOCATIONS_H
#include <stdint.h>

enum drv_allocation_kind {
  RPL_DEVICE_MEMORY, RPL_HOST_MEMORY /* pinned */, RPL_MANAGED_MEMORY, RPL_STREAM_MEMORY /* hipMallocAsync */, RPL_REGISTERED_MEMORY
};
struct drv_allocation {
  uint64_t address, bytes, reserved;   // reserved: bytes from `address` on with its red zone
  uint64_t site, freed_site;           // return addresses of the calls
  enum drv_allocation_kind kind;
  int is_freed;
};
// The allocation whose memory or red zone contains `address`, a live one first. Returns whether there is one.
int drv_allocation_at(uint64_t address, struct drv_allocation *found);

// Whether the host may not use the memory of a found allocation: it was freed. Memory that is registered no more is still the host's.
static inline int drv_allocation_is_stale(const struct drv_allocation *a) { return a->is_freed && a->kind != RPL_REGISTERED_MEMORY; }

// ---- for the HIP calls ----
void drv_allocation_add(const struct drv_allocation *allocation);
// Marks the allocation that begins at `address` as freed. Returns whether it was live.
int drv_allocation_free(uint64_t address, uint64_t site);
// Calls `visit` for all that were not freed, in the order of their addresses.
void drv_allocations_visit(void (*visit)(const struct drv_allocation *allocation));
// All are freed, by hipDeviceReset().
void drv_allocations_clear(void);
// Memory of a freed allocation whose time in quarantine is over; 0: none. `all`: ends it for all.
uint64_t drv_quarantine_next(int all, struct drv_allocation *found);
uint64_t drv_quarantine_bytes(void);
// Live allocations that host and GPUs share.
uint64_t drv_allocations_shared(void);
#endif
