// The file of records of this process in the session directory; see service.h.
#ifndef RPL_RECORDS_H
#define RPL_RECORDS_H
#include "driver.h"
#include "service.h"

// Number of the entry with these counts, written unless the kernel had equal ones before; 0 if the file cannot be written.
uint32_t drv_records_counts(const struct drv_kernel *kernel, const struct drv_work *work);
void drv_records_dispatch(const struct rpl_dispatch_entry *entry);
void drv_records_copy(const struct rpl_copy_entry *entry);
void drv_records_forget(void);
#endif
