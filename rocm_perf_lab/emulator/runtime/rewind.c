#define _GNU_SOURCE
#include "rewind.h"
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

static uint8_t *place(const uint8_t *base, uint64_t index) { return (uint8_t *)base + index * RPL_PAGE_BYTES; }

// The content of a page before the first run.
static const uint8_t *original(const struct rpl_pages *pages, uint64_t index) {
  return place(index < pages->image_pages ? pages->image : pages->before, index);
}

static void *content_of(const struct rpl_pages *pages, uint64_t index) {
  return (void *)((pages->first + index) * RPL_PAGE_BYTES);
}

// Returns whether a page is zero, as fresh memory is: its copy then stays untouched.
static int is_zero(const uint8_t *content) {
  return !content[0] && !memcmp(content, content + 1, RPL_PAGE_BYTES - 1);
}

void rpl_rewind_page(const struct rpl_pages *pages, uint64_t run, uint64_t page, int writes) {
  uint64_t index = page - pages->first;
  uint8_t *state = &pages->state[index];
  const uint8_t done = run == RPL_FIRST_RUN ? RPL_PAGE_WRITTEN : RPL_PAGE_REWOUND;
  for (;;) {
    uint8_t seen = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    if (seen == done || (seen == RPL_PAGE_UNTOUCHED && !writes)) return;
    if (seen == RPL_PAGE_BUSY) {
      sched_yield();
      continue;
    }
    if (!__atomic_compare_exchange_n(state, &seen, RPL_PAGE_BUSY, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    void *content = content_of(pages, index);
    if (seen == RPL_PAGE_UNTOUCHED && !is_zero(content)) memcpy(place(pages->before, index), content, RPL_PAGE_BYTES);
    if (run == RPL_SECOND_RUN) {
      memcpy(place(pages->after, index), content, RPL_PAGE_BYTES);
      if (seen == RPL_PAGE_WRITTEN) memcpy(content, original(pages, index), RPL_PAGE_BYTES);
    }
    __atomic_store_n(state, done, __ATOMIC_RELEASE);
    return;
  }
}

// Restores the pages of the second run: to their content before the first run, or after it.
void rpl_rewind_restore(const struct rpl_pages *pages, int before) {
  for (uint64_t index = 0; index < pages->count; index++)
    if (pages->state[index] == RPL_PAGE_REWOUND)
      memcpy(content_of(pages, index), before ? original(pages, index) : place(pages->after, index), RPL_PAGE_BYTES);
}

// Returns the address of `bytes` of zeroed memory that is used only as far as it is written, or 0.
uint64_t rpl_rewind_reserve(uint64_t bytes, int dense) {
  void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 0;
  if (dense) madvise(got, bytes, MADV_HUGEPAGE);  // fewer page faults; a failure only costs time
  return (uint64_t)got;
}
