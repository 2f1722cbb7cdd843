// Memory that each thread keeps between the dispatches that it runs.
#ifndef RPL_WORKERS_H
#define RPL_WORKERS_H
#include "execution.h"

struct worker {
  struct drv_view view;
  struct rpl_arena *arena;
  uint64_t *executions, *active_lanes;
  uint64_t words, lanes;          // capacity of these
  struct drv_checked *checked;    // NULL until a dispatch is checked
};
struct worker *drv_worker(void);  // of this thread; NULL if memory is short
// Makes room for the counts of a kernel and clears them. Returns 0 if memory is short.
int drv_worker_prepare(struct worker *worker, const struct drv_kernel *kernel);
// Counts of the helpers of a dispatch, which finish while its first thread still counts.
struct drv_sums { uint64_t *executions, *active_lanes; struct rpl_counters counters; };
void drv_sums_add(struct drv_sums *sums, const struct worker *from, const struct drv_kernel *kernel);
// Moves the sums to the counts of the first thread.
void drv_sums_take(struct drv_sums *sums, struct worker *to, const struct drv_kernel *kernel);
void drv_worker_free(void);       // at the end of this thread
#endif
