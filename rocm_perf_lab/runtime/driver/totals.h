// Sums over all dispatches of a session, for the summary of `rocm-perf run`.
#ifndef RPL_TOTALS_H
#define RPL_TOTALS_H
#include <stdint.h>

// Adds a dispatch that has ended, with the instructions of all its wavefronts and its emulated duration.
void drv_totals_add(uint64_t instructions, uint64_t nanoseconds);
#endif
