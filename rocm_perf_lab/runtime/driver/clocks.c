// The counter of the emulated GPUs. It follows the clock that the runtime uses as system clock: the runtime converts times of the GPU
// with pairs of both counters, and a pair that is read at two moments would displace them by as much as the thread was interrupted.
#include <time.h>
#include "driver.h"

enum { NANOSECONDS = 1000000000 };

uint64_t drv_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * NANOSECONDS + (uint64_t)now.tv_nsec;
}

uint64_t drv_ticks(void) { return drv_nanoseconds() / RPL_TICK_NS; }
