// Bytes that one dispatch accessed, by page, for the check of races between dispatches and copies.
#ifndef RPL_TOUCHED_H
#define RPL_TOUCHED_H
#include <stdint.h>

// A coherent access is atomic, or marked as visible to other workgroups or the host.
enum drv_touch { RPL_TOUCH_READ, RPL_TOUCH_WRITE, RPL_TOUCH_COHERENT_READ, RPL_TOUCH_COHERENT_WRITE, RPL_TOUCHES };
enum { RPL_TOUCH_WORDS = 64 /* of a page, one bit per byte */ };
struct drv_touched_page {
  uint64_t number;                // address / 4096 + 1; 0: a free place
  uint64_t *bits[RPL_TOUCHES];    // [RPL_TOUCH_WORDS], NULL: none
};
struct drv_touched {
  struct drv_touched_page *pages; // open addressing
  uint64_t count, capacity;
  struct drv_touched_page *last;
  int is_truncated;
};
struct drv_touched *drv_touched_create(void);
void drv_touched_free(struct drv_touched *touched);
// Notes an access of a wavefront; see rpl_checks.note.
struct rpl_run;
void drv_touched_note(void *touched, uint32_t kind, int access, int only_writes, const struct rpl_run *runs, int count);
void drv_touched_range(struct drv_touched *touched, enum drv_touch touch, uint64_t address, uint64_t bytes);
struct drv_touched_page *drv_touched_find(const struct drv_touched *touched, uint64_t page);
#endif
