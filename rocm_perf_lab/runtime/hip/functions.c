// Attributes of kernels.
#include "modules.h"

static hipError_t registered(const void *host_function, struct ihipModuleSymbol_t **function) {
  return host_function ? hip_registered_function(host_function, hip_current_device(), function) : hipErrorInvalidDeviceFunction;
}

static int binary_version(const struct ihipModuleSymbol_t *function) {
  return function->device->properties.major * 10 + function->device->properties.minor;
}

static int dynamic_lds(const struct ihipModuleSymbol_t *function) {
  return (int)(function->device->properties.sharedMemPerBlock - function->static_lds_bytes);
}

HIP_API hipError_t hipFuncGetAttributes(hipFuncAttributes *attributes, const void *host_function) {
  HIP_ENTER();
  struct ihipModuleSymbol_t *function;
  if (!attributes) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = registered(host_function, &function);
  if (error != hipSuccess) HIP_RETURN(error);
  *attributes = (hipFuncAttributes){
      .binaryVersion = binary_version(function), .localSizeBytes = function->private_bytes, .maxDynamicSharedSizeBytes = dynamic_lds(function),
      .maxThreadsPerBlock = (int)function->max_workgroup, .numRegs = (int)function->vgprs, .ptxVersion = binary_version(function),
      .sharedSizeBytes = function->static_lds_bytes};
  return hipSuccess;
}

static hipError_t attribute(int *value, hipFunction_attribute which, const struct ihipModuleSymbol_t *function) {
  if (!value || !function) return hipErrorInvalidValue;
  switch (which) {
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)function->static_lds_bytes; break;
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)function->max_workgroup; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)function->private_bytes; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)function->vgprs; break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *value = binary_version(function); break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = dynamic_lds(function); break;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = 0; break;
    default: return hipErrorInvalidValue;
  }
  return hipSuccess;
}

HIP_API hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute which, hipFunction_t function) {
  HIP_ENTER();
  HIP_RETURN(attribute(value, which, function));
}

static hipError_t set_attribute(const void *host_function, hipFuncAttribute which, int value) {
  struct ihipModuleSymbol_t *function;
  HIP_TRY(registered(host_function, &function));
  if (which == hipFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > dynamic_lds(function)) return hipErrorInvalidValue;
    function->max_dynamic_lds = value;
    return hipSuccess;
  }
  return which == hipFuncAttributePreferredSharedMemoryCarveout ? hipSuccess : hipErrorInvalidValue;
}

HIP_API hipError_t hipFuncSetAttribute(const void *host_function, hipFuncAttribute which, int value) {
  HIP_ENTER();
  HIP_RETURN(set_attribute(host_function, which, value));
}

// Caches and banks of the GPUs are fixed: valid hints have no effect.
HIP_API hipError_t hipFuncSetCacheConfig(const void *host_function, hipFuncCache_t config) {
  HIP_ENTER();
  (void)config;
  struct ihipModuleSymbol_t *function;
  HIP_RETURN(registered(host_function, &function));
}

HIP_API hipError_t hipFuncSetSharedMemConfig(const void *host_function, hipSharedMemConfig config) {
  HIP_ENTER();
  (void)config;
  struct ihipModuleSymbol_t *function;
  HIP_RETURN(registered(host_function, &function));
}

HIP_API hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *host_function) {
  HIP_ENTER();
  if (!function) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(registered(host_function, function));
}

HIP_API const char *hipKernelNameRef(const hipFunction_t function) { return function ? function->name : NULL; }

HIP_API const char *hipKernelNameRefByPtr(const void *host_function, hipStream_t stream) {
  (void)stream;
  return host_function ? hip_registered_name(host_function) : NULL;
}
