// Buffer objects and properties of the render nodes: drm.c for ioctls, libdrm.c for the functions of libdrm.
#ifndef RPL_DRM_H
#define RPL_DRM_H
#include "system.h"

struct drm_amdgpu_info;
// Functions that return int: 0 or an errno.
uint32_t drv_gem_add(struct drv_storage *storage, uint32_t gpu);
struct drv_storage *drv_gem_get(uint32_t handle, uint32_t gpu);
int drv_gem_close(uint32_t handle);
int drv_gem_create(uint32_t gpu, uint64_t size, uint64_t domains, uint64_t flags, uint32_t *handle);
int drv_gem_va(uint32_t gpu, uint32_t handle, uint32_t operation, uint64_t offset, uint64_t size, uint64_t address);
int drv_gem_mmap(uint32_t handle, uint32_t gpu, uint64_t *offset);
struct drv_mapping_request { void *at; uint64_t size; int protection, flags; };
// mmap() of a render node at an offset from RPL_FOREIGN on.
void *drv_gem_map_foreign(uint32_t gpu, uint64_t offset, const struct drv_mapping_request *request);
int drv_drm_info(uint32_t gpu, const struct drm_amdgpu_info *query);
#endif
