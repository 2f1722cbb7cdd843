// Hidden kernel arguments (code object ABI 4 and 5): geometry, and addresses of services of the runtime.
#include <string.h>

#include "modules.h"

enum { AXES = 3, PRIVATE_APERTURE = 0x20000, SHARED_APERTURE = 0x10000 /* upper halves of the addresses of scratch and LDS */ };

static uint32_t items(const struct hip_kernel_launch *launch, uint32_t axis) {
  return launch->items[axis] ? launch->items[axis] : launch->grid[axis] * launch->block[axis];
}

static uint64_t grid_dimensions(const struct hip_kernel_launch *launch) {
  return items(launch, 2) > 1 ? 3 : items(launch, 1) > 1 ? 2 : 1;
}

// The layout of the device libraries (mg_info): the barrier of a grid.
struct grid_barrier {
  uint64_t devices;               // structure for several devices: none
  uint32_t grid, grid_count;
  uint64_t first_item, item_count;
  uint32_t counter[2], workgroups, reserved;
};

// Fills the barrier, for which a cooperative launch has space behind its arguments. Returns its address.
static uint64_t make_barrier(const struct hip_kernel_launch *launch, uint8_t *kernarg) {
  uint64_t groups = 1, all = 1;
  for (uint32_t axis = 0; axis < AXES; axis++) {
    groups *= launch->grid[axis];
    all *= items(launch, axis);
  }
  struct grid_barrier barrier = {.grid_count = 1, .item_count = all, .workgroups = (uint32_t)groups};
  uint8_t *place = kernarg + launch->kernarg_bytes - HIP_BARRIER_BYTES;
  memcpy(place, &barrier, sizeof barrier);
  return (uint64_t)place;
}

static uint64_t value_of(const struct hip_kernel_launch *launch, uint8_t *kernarg, enum hip_hidden hidden, uint64_t amd_queue) {
  const struct ihipModuleSymbol_t *function = launch->function;
  switch (hidden) {
    case HIP_HIDDEN_BLOCK_COUNT_X: case HIP_HIDDEN_BLOCK_COUNT_Y: case HIP_HIDDEN_BLOCK_COUNT_Z: {
      uint32_t axis = hidden - HIP_HIDDEN_BLOCK_COUNT_X;
      return items(launch, axis) / launch->block[axis];  // complete ones
    }
    case HIP_HIDDEN_GROUP_SIZE_X: case HIP_HIDDEN_GROUP_SIZE_Y: case HIP_HIDDEN_GROUP_SIZE_Z:
      return launch->block[hidden - HIP_HIDDEN_GROUP_SIZE_X];
    case HIP_HIDDEN_REMAINDER_X: case HIP_HIDDEN_REMAINDER_Y: case HIP_HIDDEN_REMAINDER_Z: {
      uint32_t axis = hidden - HIP_HIDDEN_REMAINDER_X;
      return items(launch, axis) % launch->block[axis];
    }
    case HIP_HIDDEN_GRID_DIMS: return grid_dimensions(launch);
    case HIP_HIDDEN_HOSTCALL_BUFFER: return hip_services_calls(function);
    case HIP_HIDDEN_HEAP: return hip_services_heap(function->device);
    case HIP_HIDDEN_MULTIGRID_SYNC: return launch->is_cooperative ? make_barrier(launch, kernarg) : 0;
    case HIP_HIDDEN_DYNAMIC_LDS_SIZE: return launch->dynamic_lds_bytes;
    case HIP_HIDDEN_PRIVATE_BASE: return PRIVATE_APERTURE;
    case HIP_HIDDEN_SHARED_BASE: return SHARED_APERTURE;
    case HIP_HIDDEN_QUEUE_POINTER: return amd_queue;
    default: return 0;
  }
}

void hip_fill_hidden(const struct hip_kernel_launch *launch, void *kernarg, uint64_t amd_queue, struct ihipStream_t *stream) {
  (void)stream;
  const struct ihipModuleSymbol_t *function = launch->function;
  for (uint32_t k = function->explicit_count; k < function->argument_count; k++) {
    const struct hip_argument *argument = &function->arguments[k];
    if (argument->size > sizeof(uint64_t) || argument->offset + argument->size > function->kernarg_bytes) continue;
    uint64_t value = value_of(launch, kernarg, argument->hidden, amd_queue);
    memcpy((uint8_t *)kernarg + argument->offset, &value, argument->size);
  }
}
