// A hash table of pages with a bit per byte and kind of access.
#include "touched.h"

#include <stdlib.h>
#include <string.h>

#include "../../emulator/runtime/checks.h"

enum { FIRST_CAPACITY = 64, MOST_PAGES = 1 << 16, WORD_BITS = 64 };

struct drv_touched *drv_touched_create(void) { return calloc(1, sizeof(struct drv_touched)); }

void drv_touched_free(struct drv_touched *t) {
  if (!t) return;
  for (uint64_t k = 0; k < t->capacity; k++)
    for (int touch = 0; touch < RPL_TOUCHES; touch++) free(t->pages[k].bits[touch]);
  free(t->pages);
  free(t);
}

static uint64_t first_place(uint64_t capacity, uint64_t number) { return (number * 0x9e3779b97f4a7c15u >> 20) % capacity; }

static struct drv_touched_page *place_of(struct drv_touched_page *pages, uint64_t capacity, uint64_t number) {
  uint64_t k = first_place(capacity, number);
  while (pages[k %= capacity].number && pages[k].number != number) k++;
  return &pages[k];
}

struct drv_touched_page *drv_touched_find(const struct drv_touched *t, uint64_t page) {
  if (!t->capacity) return NULL;
  struct drv_touched_page *found = place_of(t->pages, t->capacity, page + 1);
  return found->number ? found : NULL;
}

static int grow(struct drv_touched *t) {
  uint64_t capacity = t->capacity ? 2 * t->capacity : FIRST_CAPACITY;
  struct drv_touched_page *pages = calloc(capacity, sizeof *pages);
  if (!pages) return 0;
  for (uint64_t k = 0; k < t->capacity; k++)
    if (t->pages[k].number) *place_of(pages, capacity, t->pages[k].number) = t->pages[k];
  free(t->pages);
  t->pages = pages;
  t->capacity = capacity;
  t->last = NULL;
  return 1;
}

static struct drv_touched_page *page_of(struct drv_touched *t, uint64_t page) {
  if (t->last && t->last->number == page + 1) return t->last;
  if (2 * t->count >= t->capacity && !grow(t)) return NULL;
  struct drv_touched_page *found = place_of(t->pages, t->capacity, page + 1);
  if (!found->number) {
    if (t->count == MOST_PAGES) {
      t->is_truncated = 1;
      return NULL;
    }
    t->count++;
    found->number = page + 1;
  }
  return t->last = found;
}

// Bits of the page with the address; NULL: there is no memory.
static uint64_t *bits_of(struct drv_touched *t, enum drv_touch touch, uint64_t address) {
  struct drv_touched_page *page = page_of(t, address / RPL_PAGE_BYTES);
  if (!page) return NULL;
  if (!page->bits[touch]) page->bits[touch] = calloc(RPL_TOUCH_WORDS, sizeof *page->bits[touch]);
  return page->bits[touch];
}

// Sets the bits of bytes of one page.
static void set(uint64_t *bits, uint64_t address, uint64_t bytes) {
  if (!bits) return;
  uint64_t first = address % RPL_PAGE_BYTES, end = first + bytes;
  while (first < end) {
    uint64_t bit = first % WORD_BITS, count = end - first < WORD_BITS - bit ? end - first : WORD_BITS - bit;
    bits[first / WORD_BITS] |= (count == WORD_BITS ? ~0ull : (1ull << count) - 1) << bit;
    first += count;
  }
}

void drv_touched_range(struct drv_touched *t, enum drv_touch touch, uint64_t address, uint64_t bytes) {
  while (bytes) {
    uint64_t room = RPL_PAGE_BYTES - address % RPL_PAGE_BYTES, part = bytes < room ? bytes : room;
    set(bits_of(t, touch, address), address, part);
    address += part;
    bytes -= part;
  }
}

// Scattered runs miss the CPU's caches in the table and in the bits: all misses of one kind at a time.
static void note_runs(struct drv_touched *t, enum drv_touch touch, const struct rpl_run *runs, int count) {
  uint64_t *bits[RPL_LANES];
  if (count > RPL_FEW_RUNS && t->capacity)
    for (int k = 0; k < count; k++) __builtin_prefetch(&t->pages[first_place(t->capacity, runs[k].begin / RPL_PAGE_BYTES + 1)]);
  for (int k = 0; k < count; k++) {
    bits[k] = bits_of(t, touch, runs[k].begin);
    if (bits[k]) __builtin_prefetch(&bits[k][runs[k].begin % RPL_PAGE_BYTES / WORD_BITS], 1);
  }
  for (int k = 0; k < count; k++) {
    uint64_t begin = runs[k].begin, bytes = runs[k].end - begin;
    if (begin % RPL_PAGE_BYTES + bytes <= RPL_PAGE_BYTES) set(bits[k], begin, bytes);
    else drv_touched_range(t, touch, begin, bytes);
  }
}

void drv_touched_note(void *touched, uint32_t kind, int access, int only_writes, const struct rpl_run *runs, int count) {
  int coherent = kind == RPL_COHERENT_LOAD || kind == RPL_COHERENT_STORE;
  if (access == RPL_LOAD || (access == RPL_ATOMIC && !only_writes))
    note_runs(touched, coherent ? RPL_TOUCH_COHERENT_READ : RPL_TOUCH_READ, runs, count);
  if (access != RPL_LOAD) note_runs(touched, coherent ? RPL_TOUCH_COHERENT_WRITE : RPL_TOUCH_WRITE, runs, count);
}
