// Durations of dispatches, scaled by their work from estimates of earlier dispatches of the same kernel.
#ifndef RPL_ESTIMATES_H
#define RPL_ESTIMATES_H
#include "driver.h"

// What the time of a dispatch depends on, apart from the kernel and the size of its workgroups.
struct drv_amount { double instructions, bytes, units /* compute units with work */; };
struct drv_estimate { struct drv_amount amount; uint64_t duration_ns, fixed_ns; uint32_t record; };
struct drv_family;

// Returns the dispatches like a launch, or NULL if memory is short. `*wanted`: whether its duration has to be estimated.
struct drv_family *drv_family_of(const struct drv_kernel *kernel, const struct rpl_launch *launch, int *wanted);
void drv_family_add(struct drv_family *family, const struct drv_estimate *estimate);
// The dispatches of a family cannot be estimated.
void drv_family_give_up(struct drv_family *family);
// Duration of a dispatch that was not estimated; `*record` is the number of the estimate it was scaled from, or 0.
uint64_t drv_family_scaled(struct drv_family *family, const struct drv_amount *amount, uint32_t *record);
// Duration of a dispatch by its instructions and bytes alone, without the timing model.
uint64_t drv_rough_duration(const struct drv_gpu *gpu, const struct rpl_launch *launch, const struct drv_amount *amount);
void drv_families_forget(void);
#endif
