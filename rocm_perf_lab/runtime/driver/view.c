// What a thread knows of the memory that GPUs can access: a snapshot that is renewed when an access misses it.
#include <string.h>

#include "execution.h"

void drv_view_refresh(struct drv_view *view) {
  if (view->ranges && view->ranges->gpu == view->gpu && view->ranges->version == drv_ranges_version(view->gpu)) return;
  const struct drv_ranges *old = view->ranges;
  view->ranges = drv_ranges_get(view->gpu);
  if (old) drv_ranges_put(old);
  view->machine.allocations = view->ranges->ranges;
  view->machine.allocation_count = view->ranges->count;
  view->machine.last_hit = 0;
}

static int is_read_only(const struct rpl_machine *machine, uint64_t low, uint64_t high) {
  for (uint64_t k = 0; k < machine->allocation_count; k++)
    if (low >= machine->allocations[k].begin && high <= machine->allocations[k].end) return machine->allocations[k].freed == RPL_READ_ONLY;
  return 0;
}

// Called for an access outside of the snapshot, or a store to memory that is read-only in it. Returns whether it is worth another look.
static int miss(struct rpl_machine *machine, uint64_t low, uint64_t high) {
  struct drv_view *view = machine->owner;
  uint64_t before = view->ranges->version;
  drv_view_refresh(view);
  if (view->ranges->version != before) return 1;
  if (drv_ranges_look_again(view->gpu, low)) {
    drv_view_refresh(view);
    return 1;
  }
  if (is_read_only(machine, low, high)) return 0;
  if (!drv_memory_fault_in(low) && !drv_memory_fault_in(high - 1)) return 0;
  drv_view_refresh(view);
  return view->ranges->version != before;
}

int drv_view_has(struct drv_view *view, uint64_t low, uint64_t high) {
  view->machine.miss = miss;
  view->machine.owner = view;
  drv_view_refresh(view);
  return high > low && rpl_find(&view->machine, low, high);
}

void drv_view_drop(struct drv_view *view) {
  if (view->ranges) drv_ranges_put(view->ranges);
  memset(view, 0, sizeof *view);
}
