// Exported functions that launch kernels.
#include <string.h>

#include "modules.h"

enum { AXES = 3 };
typedef struct ihipModuleSymbol_t function_t;

// ---- kernels by their host functions ----

static hipError_t launch(const void *host_function, struct hip_geometry geometry, void **arguments, hipStream_t handle, hipEvent_t start,
                         hipEvent_t stop) {
  struct ihipStream_t *stream;
  function_t *function;
  if (!host_function) return hipErrorInvalidDeviceFunction;
  HIP_TRY(hip_stream_of(handle, &stream));
  HIP_TRY(hip_registered_function(host_function, stream->device, &function));
  return hip_launch(stream, function, &geometry, arguments, NULL, start, stop);
}

static struct hip_geometry cooperative(struct hip_geometry geometry) {
  geometry.is_cooperative = 1;
  return geometry;
}

HIP_API hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t lds, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(function, hip_geometry_of(grid, block, lds), arguments, stream, NULL, NULL));
}

HIP_API hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **arguments, size_t lds, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(function, hip_geometry_of(grid, block, lds), arguments, stream ? stream : hipStreamPerThread, NULL, NULL));
}

HIP_API hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t lds, hipStream_t stream,
                                      hipEvent_t start, hipEvent_t stop, int flags) {
  (void)flags;
  HIP_ENTER();
  HIP_RETURN(launch(function, hip_geometry_of(grid, block, lds), arguments, stream, start, stop));
}

HIP_API hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, unsigned int lds, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(function, cooperative(hip_geometry_of(grid, block, lds)), arguments, stream, NULL, NULL));
}

HIP_API hipError_t hipLaunchCooperativeKernel_spt(const void *function, dim3 grid, dim3 block, void **arguments, uint32_t lds, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(function, cooperative(hip_geometry_of(grid, block, lds)), arguments, stream ? stream : hipStreamPerThread, NULL, NULL));
}

static int is_cooperative(const hipLaunchAttribute *attributes, unsigned count) {
  for (unsigned k = 0; attributes && k < count; k++)
    if (attributes[k].id == hipLaunchAttributeCooperative) return attributes[k].val.cooperative != 0;
  return 0;
}

HIP_API hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **arguments) {
  HIP_ENTER();
  if (!config) HIP_RETURN(hipErrorInvalidConfiguration);
  struct hip_geometry geometry = hip_geometry_of(config->gridDim, config->blockDim, config->dynamicSmemBytes);
  geometry.is_cooperative = is_cooperative(config->attrs, config->numAttrs);
  HIP_RETURN(launch(function, geometry, arguments, config->stream, NULL, NULL));
}

// One launch per device, each on its stream.
static hipError_t launch_each(const hipLaunchParams *list, int count, int together) {
  if (!list || count <= 0 || count > hip_device_count()) return hipErrorInvalidValue;
  for (int k = 0; k < count; k++) {
    struct hip_geometry geometry = hip_geometry_of(list[k].gridDim, list[k].blockDim, list[k].sharedMem);
    geometry.is_cooperative = together;
    HIP_TRY(launch(list[k].func, geometry, list[k].args, list[k].stream, NULL, NULL));
  }
  return hipSuccess;
}

HIP_API hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *list, int count, unsigned int flags) {
  (void)flags;
  HIP_ENTER();
  HIP_RETURN(launch_each(list, count, 0));
}

// ---- kernels of modules ----

static hipError_t launch_function(function_t *function, const struct hip_geometry *geometry, void **parameters, void **extra, hipStream_t handle,
                                  hipEvent_t start, hipEvent_t stop) {
  struct ihipStream_t *stream;
  if (!function || !hip_function_exists(function)) return hipErrorInvalidHandle;
  HIP_TRY(hip_stream_of(handle, &stream));
  return hip_launch(stream, function, geometry, parameters, extra, start, stop);
}

HIP_API hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                         unsigned int block_y, unsigned int block_z, unsigned int lds, hipStream_t stream, void **parameters,
                                         void **extra) {
  HIP_ENTER();
  struct hip_geometry geometry = {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .dynamic_lds = lds};
  HIP_RETURN(launch_function(function, &geometry, parameters, extra, stream, NULL, NULL));
}

HIP_API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                                    unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int lds,
                                                    hipStream_t stream, void **parameters) {
  HIP_ENTER();
  struct hip_geometry geometry = {
      .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .dynamic_lds = lds, .is_cooperative = 1};
  HIP_RETURN(launch_function(function, &geometry, parameters, NULL, stream, NULL, NULL));
}

HIP_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **parameters, void **extra) {
  HIP_ENTER();
  if (!config) HIP_RETURN(hipErrorInvalidConfiguration);
  struct hip_geometry geometry = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                  .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                  .dynamic_lds = config->sharedMemBytes,
                                  .is_cooperative = is_cooperative(config->attrs, config->numAttrs)};
  HIP_RETURN(launch_function(function, &geometry, parameters, extra, config->hStream, NULL, NULL));
}

// The size of the grid is in work-items.
static hipError_t launch_items(function_t *function, const uint32_t *items, const uint32_t *block, size_t lds, hipStream_t stream, void **parameters,
                               void **extra, hipEvent_t start, hipEvent_t stop) {
  struct hip_geometry geometry = {.dynamic_lds = lds};
  for (int axis = 0; axis < AXES; axis++) {
    if (!items[axis] || !block[axis]) return hipErrorInvalidValue;
    geometry.block[axis] = block[axis];
    geometry.grid[axis] = items[axis] / block[axis] + (items[axis] % block[axis] != 0);
    geometry.items[axis] = items[axis];
  }
  return launch_function(function, &geometry, parameters, extra, stream, start, stop);
}

#define LAUNCH_ITEMS(name, ...)                                                                                                           \
  HIP_API hipError_t name(hipFunction_t function, uint32_t x, uint32_t y, uint32_t z, uint32_t block_x, uint32_t block_y, uint32_t block_z, \
                          size_t lds, hipStream_t stream, void **parameters, void **extra, hipEvent_t start, hipEvent_t stop __VA_ARGS__)
#define LAUNCH_ITEMS_BODY                                                                                            \
  {                                                                                                                  \
    HIP_ENTER();                                                                                                     \
    const uint32_t items[AXES] = {x, y, z}, block[AXES] = {block_x, block_y, block_z};                               \
    HIP_RETURN(launch_items(function, items, block, lds, stream, parameters, extra, start, stop));                   \
  }
#define AND_FLAGS , uint32_t flags __attribute__((unused))
LAUNCH_ITEMS(hipExtModuleLaunchKernel, AND_FLAGS);
LAUNCH_ITEMS(hipExtModuleLaunchKernel, AND_FLAGS) LAUNCH_ITEMS_BODY
LAUNCH_ITEMS(hipHccModuleLaunchKernel);
LAUNCH_ITEMS(hipHccModuleLaunchKernel) LAUNCH_ITEMS_BODY
// hip_ext.h declares them as functions of C++.
LAUNCH_ITEMS(hip_ext_launch_mangled, AND_FLAGS)
__asm__("_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j");
LAUNCH_ITEMS(hip_ext_launch_mangled, AND_FLAGS) LAUNCH_ITEMS_BODY
LAUNCH_ITEMS(hip_hcc_launch_mangled)
__asm__("_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_");
LAUNCH_ITEMS(hip_hcc_launch_mangled) LAUNCH_ITEMS_BODY

// ---- kernel<<<...>>>: the stub of the kernel pops what the caller pushed ----

enum { MOST_NESTED = 16, MOST_ARGUMENT_BYTES = 4096 };
struct configuration { dim3 grid, block; size_t lds; hipStream_t stream; };
static _Thread_local struct configuration pushed[MOST_NESTED];
static _Thread_local int pushed_count;

static hipError_t push(struct configuration configuration) {
  if (pushed_count == MOST_NESTED) return hipErrorInvalidConfiguration;
  pushed[pushed_count++] = configuration;
  return hipSuccess;
}

static hipError_t pop(struct configuration *configuration) {
  if (!pushed_count) return hipErrorMissingConfiguration;
  *configuration = pushed[--pushed_count];
  return hipSuccess;
}

HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  HIP_RETURN(push((struct configuration){grid, block, lds, stream}));
}

HIP_API hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *stream) {
  struct configuration top;
  hipError_t error = pop(&top);
  if (error != hipSuccess) HIP_RETURN(error);
  *grid = top.grid;
  *block = top.block;
  *lds = top.lds;
  *stream = top.stream;
  return hipSuccess;
}

static _Thread_local uint8_t arguments_block[MOST_ARGUMENT_BYTES];
static _Thread_local size_t arguments_bytes;

HIP_API hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  HIP_ENTER();
  arguments_bytes = 0;
  HIP_RETURN(push((struct configuration){grid, block, lds, stream}));
}

HIP_API hipError_t hipSetupArgument(const void *argument, size_t size, size_t offset) {
  HIP_ENTER();
  if (!argument || offset > sizeof arguments_block || size > sizeof arguments_block - offset) HIP_RETURN(hipErrorInvalidValue);
  memcpy(arguments_block + offset, argument, size);
  if (offset + size > arguments_bytes) arguments_bytes = offset + size;
  return hipSuccess;
}

static hipError_t launch_configured(const void *host_function) {
  struct configuration top;
  struct ihipStream_t *stream;
  function_t *function;
  HIP_TRY(pop(&top));
  HIP_TRY(hip_stream_of(top.stream, &stream));
  HIP_TRY(hip_registered_function(host_function, stream->device, &function));
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, arguments_block, HIP_LAUNCH_PARAM_BUFFER_SIZE, &arguments_bytes, HIP_LAUNCH_PARAM_END};
  struct hip_geometry geometry = hip_geometry_of(top.grid, top.block, top.lds);
  return hip_launch(stream, function, &geometry, NULL, extra, NULL, NULL);
}

HIP_API hipError_t hipLaunchByPtr(const void *function) {
  HIP_ENTER();
  HIP_RETURN(launch_configured(function));
}
