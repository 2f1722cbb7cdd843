// Launches: checks of the geometry, the block of arguments, submission.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "modules.h"

enum { AXES = 3, ARGUMENT_ALIGNMENT = 64, EXTRA_WORDS = 5 };

struct hip_geometry hip_geometry_of(dim3 grid, dim3 block, uint64_t dynamic_lds) {
  return (struct hip_geometry){
      .grid = {grid.x, grid.y, grid.z}, .block = {block.x, block.y, block.z}, .dynamic_lds = dynamic_lds};
}

static uint64_t items(const struct hip_geometry *geometry, int axis) {
  return geometry->items[axis] ? geometry->items[axis] : (uint64_t)geometry->grid[axis] * geometry->block[axis];
}

static uint64_t product(const uint32_t *values) { return (uint64_t)values[0] * values[1] * values[2]; }

// All workgroups of a cooperative launch have to be on the device at the same time.
static hipError_t check_cooperative(const struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry) {
  int blocks;
  HIP_TRY(hip_occupancy_blocks(function, (uint32_t)product(geometry->block), geometry->dynamic_lds, &blocks));
  uint64_t most = (uint64_t)blocks * function->device->compute_units;
  return product(geometry->grid) > most ? hipErrorCooperativeLaunchTooLarge : hipSuccess;
}

hipError_t hip_geometry_check(const struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry) {
  const hipDeviceProp_tR0600 *properties = &function->device->properties;
  for (int axis = 0; axis < AXES; axis++) {
    uint64_t count = items(geometry, axis);
    if (!count || !geometry->block[axis]) return hipErrorInvalidValue;
    if (count > UINT32_MAX) return hipErrorInvalidConfiguration;
    if (function->is_uniform && count % geometry->block[axis]) return hipErrorInvalidValue;
  }
  if (geometry->dynamic_lds > properties->sharedMemPerBlock) return hipErrorInvalidValue;
  if (product(geometry->block) > (uint64_t)properties->maxThreadsPerBlock) return hipErrorInvalidValue;
  if (product(geometry->block) > function->max_workgroup) return hipErrorLaunchFailure;
  if (function->static_lds_bytes + geometry->dynamic_lds > properties->sharedMemPerBlock) return hipErrorInvalidValue;
  return geometry->is_cooperative ? check_cooperative(function, geometry) : hipSuccess;
}

// ---- arguments ----

// The block that `extra` names.
static hipError_t extra_block(void **extra, const void **block, size_t *bytes) {
  *block = NULL;
  *bytes = 0;
  if (extra[0] != HIP_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != HIP_LAUNCH_PARAM_BUFFER_SIZE || extra[EXTRA_WORDS - 1] != HIP_LAUNCH_PARAM_END)
    return hipErrorInvalidValue;
  *block = extra[1];
  *bytes = *(const size_t *)extra[3];
  return *block || !*bytes ? hipSuccess : hipErrorInvalidValue;
}

static uint64_t explicit_bytes(const struct ihipModuleSymbol_t *function) {
  uint64_t end = 0;
  for (uint32_t k = 0; k < function->explicit_count; k++) {
    uint64_t after = (uint64_t)function->arguments[k].offset + function->arguments[k].size;
    if (after > end) end = after;
  }
  // Without metadata of arguments all of the segment may be explicit.
  return function->argument_count ? end : function->kernarg_bytes;
}

hipError_t hip_launch_arguments(struct hip_kernel_launch *launch, void **parameters, void **extra) {
  const struct ihipModuleSymbol_t *function = launch->function;
  uint8_t *kernarg = launch->kernarg;
  if (parameters && extra) return hipErrorInvalidValue;
  if (extra) {
    const void *block;
    size_t bytes;
    HIP_TRY(extra_block(extra, &block, &bytes));
    uint64_t most = explicit_bytes(function);
    if (bytes < most && function->argument_count) hip_driver_short_arguments(bytes, most);
    if (block) memcpy(kernarg, block, bytes < most ? bytes : most);
    return hipSuccess;
  }
  if (!parameters) return function->explicit_count ? hipErrorInvalidValue : hipSuccess;
  for (uint32_t k = 0; k < function->explicit_count; k++) {
    const struct hip_argument *argument = &function->arguments[k];
    if (!parameters[k]) return hipErrorInvalidValue;
    if ((uint64_t)argument->offset + argument->size <= function->kernarg_bytes) memcpy(kernarg + argument->offset, parameters[k], argument->size);
  }
  return hipSuccess;
}

hipError_t hip_launch_prepare(struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry, void **parameters, void **extra,
                              struct hip_kernel_launch *launch) {
  HIP_TRY(hip_geometry_check(function, geometry));
  HIP_TRY(hip_services_prepare(function));
  *launch = (struct hip_kernel_launch){.function = function, .dynamic_lds_bytes = (uint32_t)geometry->dynamic_lds, .is_cooperative = geometry->is_cooperative};
  memcpy(launch->grid, geometry->grid, sizeof launch->grid);
  memcpy(launch->block, geometry->block, sizeof launch->block);
  memcpy(launch->items, geometry->items, sizeof launch->items);
  uint64_t bytes = function->kernarg_bytes;
  if (geometry->is_cooperative) bytes = ((bytes + ARGUMENT_ALIGNMENT - 1) & ~(uint64_t)(ARGUMENT_ALIGNMENT - 1)) + HIP_BARRIER_BYTES;
  launch->kernarg_bytes = bytes;
  launch->kernarg = calloc(1, bytes + 1);
  if (!launch->kernarg) return hipErrorOutOfMemory;
  hipError_t error = hip_launch_arguments(launch, parameters, extra);
  if (error != hipSuccess) free(launch->kernarg);
  return error;
}

static hipError_t event_or_null(hipEvent_t handle, struct ihipEvent_t **event) {
  *event = NULL;
  return handle ? hip_event_of(handle, event) : hipSuccess;
}

hipError_t hip_launch(struct ihipStream_t *stream, struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry, void **parameters,
                      void **extra, hipEvent_t start, hipEvent_t stop) {
  struct hip_operation operation = {.kind = HIP_OPERATION_KERNEL};
  if (function->device != stream->device) return hipErrorInvalidResourceHandle;
  HIP_TRY(hip_launch_prepare(function, geometry, parameters, extra, &operation.kernel));
  hipError_t error = event_or_null(start, &operation.kernel.start);
  if (error == hipSuccess) error = event_or_null(stop, &operation.kernel.stop);
  if (error == hipSuccess) error = hip_enqueue(stream, &operation);
  free(operation.kernel.kernarg);
  return error;
}
