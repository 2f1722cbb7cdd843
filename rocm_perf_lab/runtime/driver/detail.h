// What the timing model needs of one dispatch: traces of sampled workgroups, counts of all workgroups, sampled lines of memory.
#ifndef RPL_DETAIL_H
#define RPL_DETAIL_H
#include "driver.h"

struct drv_detail;
// Sets `launch`'s sampled workgroups, traces and counts. NULL if memory is short.
struct drv_detail *drv_detail_create(struct rpl_launch *launch, uint32_t xcds, const struct drv_ranges *ranges, uint32_t threads);
struct rpl_footprint *drv_detail_footprint(struct drv_detail *detail, uint32_t thread);
// Sends the record of the dispatch and waits for its duration. Returns 0, or 1 if there is none.
int drv_detail_ask(struct drv_detail *detail, const struct drv_kernel *kernel, const struct rpl_launch *launch, uint32_t gpu,
                   uint32_t queue, uint64_t dispatch, const struct drv_work *work, uint64_t *duration_ns, uint64_t *fixed_ns,
                   uint32_t *record);
void drv_detail_free(struct drv_detail *detail);
#endif
