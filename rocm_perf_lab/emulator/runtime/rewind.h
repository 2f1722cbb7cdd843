// Pages of device memory with their content before the first run of a launch, so that chosen workgroups can run again on it.
// Only pages that the first run writes are copied, and only pages that the second run accesses are exchanged.
#ifndef RPL_REWIND_H
#define RPL_REWIND_H
#include "machine.h"

enum rpl_page_state {
  RPL_PAGE_UNTOUCHED,
  RPL_PAGE_BUSY,      // a thread copies it
  RPL_PAGE_WRITTEN,   // by the first run, or its original content is known: rpl_pages has its content before that
  RPL_PAGE_REWOUND,   // accessed by the second run: `after` is its content after the first run
};

void rpl_rewind_page(const struct rpl_pages *pages, uint64_t run, uint64_t page, int writes);

// Before an access to [address, address + width), at most a page, of an allocation with these pages.
static inline void rpl_rewind_touch(const struct rpl_pages *pages, uint64_t run, uint64_t address, uint64_t width, int writes) {
  if (!pages) return;
  uint8_t done = run == RPL_FIRST_RUN ? RPL_PAGE_WRITTEN : RPL_PAGE_REWOUND;
  uint64_t first = address / RPL_PAGE_BYTES, last = (address + width - 1) / RPL_PAGE_BYTES;
  for (uint64_t page = first; page <= last; page++)
    if (__atomic_load_n(&pages->state[page - pages->first], __ATOMIC_ACQUIRE) != done) rpl_rewind_page(pages, run, page, writes);
}
#endif
