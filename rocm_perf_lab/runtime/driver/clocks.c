// The counter of the emulated GPUs.
#include <time.h>
#include "driver.h"

enum { NANOSECONDS = 1000000000 };

uint64_t drv_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * NANOSECONDS + (uint64_t)now.tv_nsec;
}

uint64_t drv_ticks(void) { return drv_nanoseconds() / RPL_TICK_NS; }
