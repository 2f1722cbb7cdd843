// Accesses of the application's threads to memory that unfinished operations of the GPU write, or that the host writes while they read it.
//
// When an operation has ended, and the host has not waited for it, the pages of host memory that it accessed are protected. An access of
// the host then traps once, is compared with what the operation accessed, and continues.
#ifndef RPL_HOST_RACES_H
#define RPL_HOST_RACES_H
#include "order.h"

struct drv_touched;
// Whether there is memory that host and GPUs share, and it is to be checked.
int drv_host_races_are_on(void);
void drv_host_races_guard_range(const struct drv_op *op, uint64_t address, uint64_t bytes, int writes);
void drv_host_races_guard_touched(const struct drv_op *op, const struct drv_touched *touched);
// The host waited: memory of operations that it knows to have ended is accessible again.
void drv_host_races_waited(const struct drv_clock *host);
void drv_host_races_open(uint64_t address, uint64_t bytes);
void drv_host_races_forget(void);
// Threads of the driver access everything.
void drv_host_races_own_thread(void);
// ---- order.c: whether a byte is accessed by operations that the host has not waited for; fills `finding` and its `text` ----
struct drv_finding;
int drv_order_host_races(uint64_t address, int writes, struct drv_finding *finding, char *text, uint64_t bytes);
#endif
