// Images: the GPUs of the CDNA architectures have no image instructions, and AMD's runtime refuses arrays, textures and surfaces as well.
#define _GNU_SOURCE
#include "internal.h"

static hipError_t refuse(const void *result) {
  static atomic_int was_said;
  if (!result) return hipErrorInvalidValue;
  if (!atomic_exchange(&was_said, 1)) hip_say("arrays, textures and surfaces are not supported: the GPU has no image instructions");
  return hipErrorNotSupported;
}

HIP_API hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *format, size_t width, size_t height, unsigned flags) {
  HIP_ENTER();
  (void)format, (void)width, (void)height, (void)flags;
  HIP_RETURN(refuse(array));
}

HIP_API hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *format, hipExtent extent, unsigned flags) {
  HIP_ENTER();
  (void)format, (void)extent, (void)flags;
  HIP_RETURN(refuse(array));
}

HIP_API hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *description) {
  HIP_ENTER();
  (void)description;
  HIP_RETURN(refuse(array));
}

HIP_API hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *description) {
  HIP_ENTER();
  (void)description;
  HIP_RETURN(refuse(array));
}

HIP_API hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *format, hipExtent extent, unsigned levels,
                                           unsigned flags) {
  HIP_ENTER();
  (void)format, (void)extent, (void)levels, (void)flags;
  HIP_RETURN(refuse(array));
}

// There is no array to free.
HIP_API hipError_t hipFreeArray(hipArray_t array) {
  HIP_ENTER();
  (void)array;
  HIP_RETURN(hipErrorInvalidValue);
}

HIP_API hipError_t hipCreateTextureObject(hipTextureObject_t *texture, const hipResourceDesc *resource, const hipTextureDesc *description,
                                          const struct hipResourceViewDesc *view) {
  HIP_ENTER();
  (void)resource, (void)description, (void)view;
  HIP_RETURN(refuse(texture));
}

HIP_API hipError_t hipDestroyTextureObject(hipTextureObject_t texture) {
  HIP_ENTER();
  (void)texture;
  return hipSuccess;
}

HIP_API hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *surface, const hipResourceDesc *resource) {
  HIP_ENTER();
  (void)resource;
  HIP_RETURN(refuse(surface));
}

HIP_API hipError_t hipDestroySurfaceObject(hipSurfaceObject_t surface) {
  HIP_ENTER();
  (void)surface;
  return hipSuccess;
}

// Only describes a format.
HIP_API hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return (hipChannelFormatDesc){x, y, z, w, kind};
}
