// Occupancy as HIP computes it: workgroups per compute unit from registers and LDS.
#include <limits.h>

#include "modules.h"

enum { SGPRS_PER_SIMD = 800, SGPR_GRANULE = 16, OLD_VGPRS = 256, NEW_VGPRS = 512, OLD_GRANULE = 4, NEW_GRANULE = 8, MOST_WAVES = 8, RDNA_WAVES = 16,
       RDNA_VGPRS = 1024 };

static uint32_t aligned(uint32_t value, uint32_t granule) { return (value + granule - 1) / granule * granule; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Whether vector registers and accumulation registers share a file, as from gfx90a on.
static int has_unified_registers(const struct hip_device *device) { return device->properties.major == 9 && (device->properties.minor >= 4 || device->architecture[5] == 'a'); }

static uint32_t waves_of_registers(const struct ihipModuleSymbol_t *function) {
  const struct hip_device *device = function->device;
  int is_rdna = device->properties.major > 9, is_unified = has_unified_registers(device);
  uint32_t waves = is_rdna ? RDNA_WAVES : MOST_WAVES;
  uint32_t file = is_rdna ? RDNA_VGPRS : is_unified ? NEW_VGPRS : OLD_VGPRS, granule = is_rdna || is_unified ? NEW_GRANULE : OLD_GRANULE;
  if (function->vgprs) waves = smaller(waves, file / aligned(function->vgprs, granule));
  if (function->sgprs && !is_rdna) waves = smaller(waves, SGPRS_PER_SIMD / aligned(function->sgprs, SGPR_GRANULE));
  return waves;
}

// Work-items per compute unit as limited by registers.
static uint32_t most_items(const struct ihipModuleSymbol_t *function) {
  return waves_of_registers(function) * function->device->simds_per_cu * function->wave_size;
}

static uint32_t most_by_lds(const struct ihipModuleSymbol_t *function, uint64_t dynamic_lds) {
  uint64_t used = function->static_lds_bytes + dynamic_lds;
  return used ? (uint32_t)(function->device->lds_bytes / used) : INT_MAX;
}

hipError_t hip_occupancy_blocks(const struct ihipModuleSymbol_t *function, uint32_t block, uint64_t dynamic_lds, int *blocks) {
  if (!block) return hipErrorInvalidValue;
  block = smaller(block, (uint32_t)function->device->properties.maxThreadsPerBlock);
  *blocks = (int)smaller(most_items(function) / aligned(block, function->wave_size), most_by_lds(function, dynamic_lds));
  return hipSuccess;
}

static hipError_t potential(const struct ihipModuleSymbol_t *function, uint64_t dynamic_lds, int limit, int *grid, int *block) {
  uint32_t most = (uint32_t)function->device->properties.maxThreadsPerBlock;
  if (limit > 0 && (uint32_t)limit < most) most = (uint32_t)limit;
  uint32_t items = most_items(function), best = smaller(items, aligned(most, function->wave_size));
  *block = (int)best;
  *grid = (int)(function->device->compute_units * smaller(items / best, most_by_lds(function, dynamic_lds)));
  return hipSuccess;
}

// ---- exported ----

static hipError_t registered(const void *host_function, struct ihipModuleSymbol_t **function) {
  return host_function ? hip_registered_function(host_function, hip_current_device(), function) : hipErrorInvalidDeviceFunction;
}

static hipError_t blocks_of(int *blocks, const struct ihipModuleSymbol_t *function, int block, size_t lds) {
  if (!blocks || block <= 0) return hipErrorInvalidValue;
  return hip_occupancy_blocks(function, (uint32_t)block, lds, blocks);
}

static hipError_t blocks_of_host_function(int *blocks, const void *host_function, int block, size_t lds) {
  struct ihipModuleSymbol_t *function;
  if (!blocks) return hipErrorInvalidValue;
  HIP_TRY(registered(host_function, &function));
  return blocks_of(blocks, function, block, lds);
}

HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block, size_t lds) {
  HIP_ENTER();
  HIP_RETURN(blocks_of_host_function(blocks, function, block, lds));
}

HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int block, size_t lds, unsigned int flags) {
  (void)flags;
  HIP_ENTER();
  HIP_RETURN(blocks_of_host_function(blocks, function, block, lds));
}

HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host_function, size_t lds, int limit) {
  HIP_ENTER();
  struct ihipModuleSymbol_t *function;
  if (!grid || !block) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = registered(host_function, &function);
  HIP_RETURN(error == hipSuccess ? potential(function, lds, limit, grid, block) : error);
}

HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function, int block, size_t lds) {
  HIP_ENTER();
  HIP_RETURN(function ? blocks_of(blocks, function, block, lds) : hipErrorInvalidValue);
}

HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t function, int block, size_t lds,
                                                                               unsigned int flags) {
  (void)flags;
  HIP_ENTER();
  HIP_RETURN(function ? blocks_of(blocks, function, block, lds) : hipErrorInvalidValue);
}

HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t function, size_t lds, int limit) {
  HIP_ENTER();
  if (!grid || !block || !function) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(potential(function, lds, limit, grid, block));
}

HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, hipFunction_t function, size_t lds, int limit,
                                                                    unsigned int flags) {
  (void)flags;
  HIP_ENTER();
  if (!grid || !block || !function) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(potential(function, lds, limit, grid, block));
}

HIP_API hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t *lds, const void *host_function, int blocks, int block) {
  HIP_ENTER();
  struct ihipModuleSymbol_t *function;
  if (!lds || blocks <= 0 || block <= 0) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = registered(host_function, &function);
  if (error != hipSuccess) HIP_RETURN(error);
  uint64_t share = function->device->lds_bytes / (uint32_t)blocks;
  *lds = share > function->static_lds_bytes ? share - function->static_lds_bytes : 0;
  return hipSuccess;
}
