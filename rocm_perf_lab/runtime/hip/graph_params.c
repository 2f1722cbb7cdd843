// Parameters of graph nodes and the operations that they mean.
#include "graph.h"

// A function of a module, or a host function.
static hipError_t function_of(const void *handle, struct hip_device *device, struct ihipModuleSymbol_t **function) {
  hipError_t error = hip_registered_function(handle, device, function);
  if (error != hipErrorInvalidDeviceFunction) return error;
  *function = (struct ihipModuleSymbol_t *)handle;
  return hip_function_exists(*function) ? hipSuccess : hipErrorInvalidDeviceFunction;
}

hipError_t hip_kernel_of_params(const hipKernelNodeParams *params, struct hip_device *device, struct hip_operation *operation) {
  struct ihipModuleSymbol_t *function;
  if (!params || !params->func) return hipErrorInvalidValue;
  HIP_TRY(function_of(params->func, device, &function));
  struct hip_geometry geometry = hip_geometry_of(params->gridDim, params->blockDim, params->sharedMemBytes);
  operation->kind = HIP_OPERATION_KERNEL;
  return hip_launch_prepare(function, &geometry, params->kernelParams, params->extra, &operation->kernel);
}

static struct hip_box box_of(const hipPitchedPtr *pointer, const struct hipPos *position, const struct hipExtent *extent) {
  uint64_t pitch = pointer->pitch ? pointer->pitch : extent->width, rows = pointer->ysize ? pointer->ysize : extent->height;
  uint64_t address = (uint64_t)pointer->ptr + position->x + pitch * (position->y + rows * position->z);
  return (struct hip_box){address, pitch, pitch * rows};
}

hipError_t hip_copy_of_params(const hipMemcpy3DParms *params, struct hip_operation *operation) {
  if (!params) return hipErrorInvalidValue;
  if (params->srcArray || params->dstArray) return hipErrorNotSupported;
  if (!params->srcPtr.ptr || !params->dstPtr.ptr || !params->extent.width || !params->extent.height || !params->extent.depth || params->kind > hipMemcpyDefault)
    return hipErrorInvalidValue;
  operation->kind = HIP_OPERATION_COPY;
  operation->copy = (struct hip_copy){.to = box_of(&params->dstPtr, &params->dstPos, &params->extent),
                                      .from = box_of(&params->srcPtr, &params->srcPos, &params->extent),
                                      .width = params->extent.width, .height = params->extent.height, .depth = params->extent.depth,
                                      .kind = params->kind};
  return hipSuccess;
}

static hipPitchedPtr pointer_of(const struct hip_box *box, uint64_t width, uint64_t height) {
  uint64_t rows = box->pitch && box->slice ? box->slice / box->pitch : height;
  return (hipPitchedPtr){(void *)box->address, box->pitch, width, rows};
}

hipMemcpy3DParms hip_params_of_copy(const struct hip_copy *copy) {
  return (hipMemcpy3DParms){.srcPtr = pointer_of(&copy->from, copy->width, copy->height), .dstPtr = pointer_of(&copy->to, copy->width, copy->height),
                            .extent = {copy->width, copy->height, copy->depth}, .kind = copy->kind};
}

hipMemcpy3DParms hip_linear_copy(void *to, const void *from, size_t bytes, hipMemcpyKind kind) {
  return (hipMemcpy3DParms){.srcPtr = {(void *)from, bytes, bytes, 1}, .dstPtr = {to, bytes, bytes, 1}, .extent = {bytes, 1, 1}, .kind = kind};
}

hipError_t hip_fill_of_params(const hipMemsetParams *params, struct hip_operation *operation) {
  if (!params || !params->dst || !params->width || !params->height) return hipErrorInvalidValue;
  if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4) return hipErrorInvalidValue;
  uint64_t width = params->width * params->elementSize;
  if (params->height > 1 && params->pitch < width) return hipErrorInvalidValue;
  operation->kind = HIP_OPERATION_FILL;
  operation->fill = (struct hip_fill){.to = {(uint64_t)params->dst, params->height > 1 ? params->pitch : width, 0}, .width = width, .height = params->height,
                                      .depth = 1, .value = params->value, .unit = params->elementSize};
  return hipSuccess;
}

hipMemsetParams hip_params_of_fill(const struct hip_fill *fill) {
  return (hipMemsetParams){.dst = (void *)fill->to.address, .elementSize = fill->unit, .height = fill->height, .pitch = fill->to.pitch,
                           .value = fill->value, .width = fill->width / fill->unit};
}
