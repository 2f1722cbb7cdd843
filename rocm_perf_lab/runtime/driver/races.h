// Races between operations that are not ordered.
#ifndef RPL_RACES_H
#define RPL_RACES_H
#include "order.h"
#include "touched.h"

void drv_races_of_copy(const struct drv_op *op, const struct drv_extent *extents, int count);
void drv_races_of_dispatch(const struct drv_op *op, const struct drv_kernel *kernel, struct drv_touched *touched);
// Whether the host's access to a byte races with an operation that it has not waited for; `finding` is then about it.
struct drv_finding;
int drv_races_of_host(const struct drv_clock *host, uint64_t address, int writes, struct drv_finding *finding, char *text, uint64_t bytes);
// The host knows that all operations so far have ended: they race with no later one.
void drv_races_all_ended(void);
void drv_races_forget(void);
#endif
