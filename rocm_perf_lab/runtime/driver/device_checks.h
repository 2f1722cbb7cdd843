// Checks of one dispatch beyond those of a GPU: races, bounds, uninitialised reads, barriers, alignment; see emulator/runtime/checks.h.
#ifndef RPL_DEVICE_CHECKS_H
#define RPL_DEVICE_CHECKS_H
#include "../../emulator/runtime/checks.h"
#include "execution.h"

// Of one thread, kept between dispatches.
struct drv_checked;
// A dispatch that is checked.
struct drv_checked_dispatch {
  const struct drv_kernel *kernel;
  const struct drv_watched *watched;
  uint64_t kernarg, site;      // site: return address of the launch in the application, or 0
  struct drv_touched *touched; // NULL, or receives what it accesses
  uint32_t grid[3], block[3];
};

// Whether dispatches are checked; they then run on one thread.
int drv_checks_are_on(void);
// Before a launch: sets launch->checks. Returns 0 if this dispatch is not checked.
int drv_checks_begin(struct drv_checked **checked, const struct drv_checked_dispatch *of, struct rpl_launch *launch);
// After it: decides about uninitialised reads, by running it again on the content of before, and reports the findings.
void drv_checks_end(struct drv_checked *checked, struct rpl_launch *launch, struct rpl_machine *machine, uint64_t instructions);
void drv_checked_free(struct drv_checked *checked);

// ---- shared by device_checks.c, device_shadow.c and rerun.c ----
struct drv_saved {             // a piece of memory before the dispatch changed it
  uint64_t begin, end;
  uint8_t *before, *after;     // [end - begin]
  uint8_t *initialised, *was_initialised;  // shadow now, and before; or NULL
};
struct drv_cells;              // cells by page
enum { RPL_KNOWN_ANSWERS = 4, RPL_OUTSIDE = 100, RPL_AFTER_FREE, RPL_LDS_OUTSIDE, RPL_MEMORY_FAULT, RPL_SCRATCH_OUTSIDE };
struct drv_checked {
  struct rpl_shadow shadow;    // first
  struct rpl_checks checks;
  const struct drv_checked_dispatch *of;
  struct drv_area_cache *areas;
  struct drv_cells *cells;
  struct drv_block_place image;  // of the kernel's code object
  struct drv_variable variables[RPL_KNOWN_ANSWERS];  // that were asked for last
  uint32_t next_variable;
  struct drv_saved *saved;
  uint64_t saved_count, saved_capacity, saved_bytes;
  uint32_t *saved_at;          // open addressing by begin: index + 1
  uint64_t saved_places;
  int is_known;                // shadow.last is memory whose stores can be taken back
  int is_rerun, is_out_of_reach;  // out of reach: stores that cannot
  uint8_t *outside;            // [instruction]: reported
  uint16_t *seen;
  uint64_t instructions, workgroups;
};
void drv_shadow_start(struct drv_checked *c);   // of a dispatch
int drv_shadow_create(struct drv_checked *c);   // 0: memory is short
void drv_shadow_leave(struct drv_checked *c);   // all places are looked up again
void drv_shadow_free(struct drv_checked *c);
// Whether an address is in the kernel's code object between its variables.
int drv_shadow_is_between(struct drv_checked *c, uint64_t address);
// Text about an address, and the call sites that it mentions: "12 bytes past the end of 4096 bytes allocated at {1}".
void drv_shadow_describe(const struct drv_checked *c, uint64_t address, uint32_t width, char *text, uint64_t bytes, uint64_t sites[4]);
// Whether what the dispatch computed depends on uninitialised memory. The results stay.
int drv_depends_on_uninitialised(struct drv_checked *c, const struct rpl_launch *launch, struct rpl_machine *machine, uint64_t instructions);

// What runtime/check_texts.py needs besides the message.
struct rpl_device_detail {
  struct rpl_finding finding;
  uint64_t dispatch;
  uint32_t queue, waves_per_group, grid[3], block[3];
};
#endif
