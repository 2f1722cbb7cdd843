// Faults of kernels: what the user reads, and what the queue reports.
#ifndef RPL_FAULTS_H
#define RPL_FAULTS_H
#include "execution.h"

// Explains a fault on stderr. Returns enum drv_failure, or 0 without a fault; `address` is set for memory faults.
uint32_t drv_fault_outcome(const struct rpl_fault *fault, const struct drv_watched *watched, const struct drv_kernel *kernel,
                           const struct rpl_launch *launch, uint64_t *address);
#endif
