// Allocations of the application as the device checks see them: exact bounds, and which bytes are initialised. The interposed calls of
// HIP report them; kernels look them up.
#ifndef RPL_AREAS_H
#define RPL_AREAS_H
#include <stdint.h>

struct drv_allocated {
  uint64_t address, bytes;
  uint64_t reserved;           // bytes from `address` on that belong to nothing else: padding and red zone; 0: up to the end of the page
  uint64_t site;               // return address of the call; 0: unknown
  int is_initialised;          // host and managed memory: the host may write it unseen
};
// A new allocation, before the application knows its address. Without device checks these do nothing.
void drv_area_allocated(const struct drv_allocated *of);
// It is freed, at the call that returns to `site`.
void drv_area_freed(uint64_t address, uint64_t site);
// The host, a copy or a fill writes [address, address + bytes), which may be outside of all allocations.
void drv_area_written(uint64_t address, uint64_t bytes);
void drv_areas_forget(void);   // in the child after fork()

// ---- for kernels ----
struct drv_area {
  uint64_t begin, end, reserved_end;
  uint64_t site, freed_site;
  uint32_t is_freed, padding;
  uint8_t *initialised;        // [dword from begin / 4 on], a bit per byte; NULL: all bytes are
};
// What is known of an address: [begin, end) with one answer, valid as long as drv_areas_version() is the same.
struct drv_area_answer {
  uint64_t begin, end;
  const struct drv_area *live; // that contains it
  const struct drv_area *near; // else: whose padding or freed memory it is; NULL: memory that is not the application's
};
uint64_t drv_areas_version(void);
struct drv_area_answer drv_area_find(uint64_t address);
#endif
