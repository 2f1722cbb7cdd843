// Sparse shadow of memory for one thread: cells of accesses for races, by page, and content before a dispatch changed it.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../emulator/runtime/short_cells.h"
#include "areas.h"
#include "device_checks.h"
#include "findings.h"
#include "maps.h"

enum { DWORD = 4, CELLS_PER_PAGE = RPL_PAGE_BYTES / DWORD, CELL_PLACES = 1 << 16, MOST_PAGES = 1 << 14, FIRST_SAVED = 64,
       LINES_PER_PAGE = CELLS_PER_PAGE / RPL_LINE_DWORDS, KNOWN_PLACES = 2048 };
static const uint64_t MOST_SAVED_BYTES = 256 << 20;

struct known_place { struct rpl_place place; uint64_t generation; int is_known; };
struct drv_area_cache {
  uint64_t version, generation;  // generation: of the places that are valid
  struct drv_area_answer answers[RPL_KNOWN_ANSWERS];
  uint32_t next;
  struct known_place places[KNOWN_PLACES];  // by page
};

struct cell_page { uint64_t number, index; };
// Of pages of memory, one behind the other: scattered accesses need huge pages. Most of it is never accessed.
struct drv_cells {
  struct cell_page pages[CELL_PLACES];  // open addressing; number 0 is a free place
  uint64_t count;
  struct rpl_line *lines;         // [page][LINES_PER_PAGE]
  struct rpl_short_cell *dwords;  // [page][CELLS_PER_PAGE]
  struct rpl_cell *cells;         // [page][CELLS_PER_PAGE]
};
static const uint64_t LINES_BYTES = sizeof(struct rpl_line) * MOST_PAGES * LINES_PER_PAGE,
                      DWORDS_BYTES = sizeof(struct rpl_short_cell) * MOST_PAGES * CELLS_PER_PAGE,
                      CELLS_BYTES = sizeof(struct rpl_cell) * MOST_PAGES * CELLS_PER_PAGE;

static uint64_t mixed(uint64_t value) {
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 32;
}

// ---- cells ----

static void drop_cells(struct drv_cells *cells) {
  if (cells->lines) rpl_shadow_unmap(cells->lines, LINES_BYTES);
  if (cells->dwords) rpl_shadow_unmap(cells->dwords, DWORDS_BYTES);
  if (cells->cells) munmap(cells->cells, CELLS_BYTES);
  memset(cells, 0, sizeof *cells);
}

static int map_cells(struct drv_cells *cells) {
  if (cells->cells) return 1;
  void *kept = mmap(NULL, CELLS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  cells->cells = kept == MAP_FAILED ? NULL : kept;
  cells->lines = rpl_shadow_map(LINES_BYTES);
  cells->dwords = rpl_shadow_map(DWORDS_BYTES);
  if (cells->lines && cells->dwords && cells->cells) return 1;
  drop_cells(cells);
  return 0;
}

// Index of the shadow of a page, or -1: too much memory is in use, and this page is not checked.
static int64_t cells_of(struct drv_cells *cells, uint64_t number) {
  uint64_t k = mixed(number) % CELL_PLACES;
  while (cells->pages[k].number && cells->pages[k].number != number) k = (k + 1) % CELL_PLACES;
  if (cells->pages[k].number) return (int64_t)cells->pages[k].index;
  if (cells->count == MOST_PAGES || !map_cells(cells)) return -1;
  cells->pages[k] = (struct cell_page){number, cells->count};
  return (int64_t)cells->count++;
}

// ---- content before the dispatch ----

static uint32_t *saved_place(const struct drv_checked *c, uint64_t begin) {
  uint64_t k = mixed(begin) % c->saved_places;
  while (c->saved_at[k] && c->saved[c->saved_at[k] - 1].begin != begin) k = (k + 1) % c->saved_places;
  return &c->saved_at[k];
}

static int grow_saved(struct drv_checked *c) {
  uint64_t larger = c->saved_capacity ? 2 * c->saved_capacity : FIRST_SAVED;
  struct drv_saved *grown = realloc(c->saved, larger * sizeof *grown);
  if (!grown) return 0;
  c->saved = grown;
  uint32_t *places = calloc(4 * larger, sizeof *places);
  if (!places) return 0;
  free(c->saved_at);
  c->saved_at = places;
  c->saved_places = 4 * larger;
  c->saved_capacity = larger;
  for (uint64_t k = 0; k < c->saved_count; k++) *saved_place(c, c->saved[k].begin) = (uint32_t)k + 1;
  return 1;
}

static void forget_saved(struct drv_checked *c) {
  for (uint64_t k = 0; k < c->saved_count; k++) free(c->saved[k].before);
  if (c->saved_at) memset(c->saved_at, 0, c->saved_places * sizeof *c->saved_at);
  c->saved_count = c->saved_bytes = 0;
}

// Called before the first change of a piece of memory, and before the dispatch is known to read it uninitialised.
static void save(struct rpl_shadow *s, uint64_t address) {
  struct drv_checked *c = (struct drv_checked *)s;
  struct rpl_place *p = &s->last;
  (void)address;
  p->is_saved = 1;
  if (!c->is_known || c->saved_bytes > MOST_SAVED_BYTES || (c->saved_count == c->saved_capacity && !grow_saved(c))) {
    c->is_out_of_reach = 1;
    return;
  }
  uint64_t bytes = p->end - p->begin, dwords = (p->end - 1) / DWORD - p->begin / DWORD + 1;
  uint8_t *copy = malloc(2 * bytes + dwords);
  if (!copy) {
    c->is_out_of_reach = 1;
    return;
  }
  struct drv_saved *saved = &c->saved[c->saved_count++];
  *saved = (struct drv_saved){p->begin, p->end, copy, copy + bytes, p->initialised, p->initialised ? copy + 2 * bytes : NULL};
  memcpy(saved->before, (const void *)p->begin, bytes);
  if (p->initialised) memcpy(saved->was_initialised, p->initialised, dwords);
  c->saved_bytes += 2 * bytes + dwords;
  *saved_place(c, p->begin) = (uint32_t)c->saved_count;
}

// ---- the place of an address ----

static struct drv_area_answer area_of(struct drv_area_cache *cache, uint64_t address) {
  for (int k = 0; k < RPL_KNOWN_ANSWERS; k++)
    if (address >= cache->answers[k].begin && address < cache->answers[k].end) return cache->answers[k];
  return cache->answers[cache->next++ % RPL_KNOWN_ANSWERS] = drv_area_find(address);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

// NULL: the address is not known to belong to a variable of the kernel's code object, or to a gap behind one.
static const struct drv_variable *variable_at(struct drv_checked *c, uint64_t address) {
  for (int k = 0; k < RPL_KNOWN_ANSWERS; k++)
    if (address >= c->variables[k].begin && address < c->variables[k].end) return c->variables[k].bytes ? &c->variables[k] : NULL;
  struct drv_variable *v = &c->variables[c->next_variable++ % RPL_KNOWN_ANSWERS];
  if (drv_elf_variable(&c->image, address, v)) return v;
  uint64_t page = address / RPL_PAGE_BYTES * RPL_PAGE_BYTES;
  *v = (struct drv_variable){.begin = address, .end = smaller(page + RPL_PAGE_BYTES, address + DWORD)};
  return NULL;
}

int drv_shadow_is_between(struct drv_checked *c, uint64_t address) {
  const struct drv_variable *v = address - c->image.address < c->image.size ? variable_at(c, address) : NULL;
  return v && v->is_between;
}

// Narrows the place to a variable, or to the gap behind it.
static void look_at_variable(struct drv_checked *c, uint64_t address) {
  struct rpl_place *p = &c->shadow.last;
  const struct drv_variable *v = variable_at(c, address);
  if (!v) return;
  p->begin = larger(p->begin, v->begin);
  p->end = smaller(p->end, v->end);
  p->is_bad = v->is_between && !c->is_rerun;
}

static struct known_place *slot_of(struct drv_area_cache *cache, uint64_t address) {
  return &cache->places[address / RPL_PAGE_BYTES % KNOWN_PLACES];
}

void drv_shadow_leave(struct drv_checked *c) {
  c->shadow.last = (struct rpl_place){0};
  c->areas->generation++;
}

// Puts `last` aside, and returns whether it could be replaced by a place that was known before.
static int recall(struct drv_checked *c, uint64_t address) {
  struct drv_area_cache *cache = c->areas;
  if (cache->version != drv_areas_version()) {
    cache->version = drv_areas_version();
    memset(cache->answers, 0, sizeof cache->answers);
    drv_shadow_leave(c);
    return 0;
  }
  if (c->shadow.last.end) *slot_of(cache, c->shadow.last.begin) = (struct known_place){c->shadow.last, cache->generation, c->is_known};
  const struct known_place *known = slot_of(cache, address);
  if (known->generation != cache->generation || address < known->place.begin || address >= known->place.end) return 0;
  c->shadow.last = known->place;
  c->is_known = known->is_known;
  return 1;
}

static void find(struct rpl_shadow *s, uint64_t address) {
  struct drv_checked *c = (struct drv_checked *)s;
  if (recall(c, address)) return;
  uint64_t page = address / RPL_PAGE_BYTES, begin = page * RPL_PAGE_BYTES;
  struct drv_area_answer a = area_of(c->areas, address);
  s->last = (struct rpl_place){.begin = larger(begin, a.begin), .end = smaller(begin + RPL_PAGE_BYTES, a.end), .is_saved = 1};
  uint64_t argument = address - c->of->kernarg;
  int is_image = !a.live && address - c->image.address < c->image.size;
  if (!a.live && argument < c->of->kernel->kernarg_bytes) a.near = NULL;  // at the end of memory of the runtime
  c->is_known = a.live || is_image;
  if (a.near && !is_image && drv_check_is_on(RPL_ON_BOUNDS)) s->last.is_bad = !c->is_rerun;
  if (is_image && drv_check_is_on(RPL_ON_BOUNDS)) look_at_variable(c, address);
  if (!a.live && !is_image) {
    s->last.is_saved = c->is_out_of_reach || !drv_check_is_on(RPL_ON_UNINITIALISED);
    return;
  }
  if (drv_check_is_on(RPL_ON_RACES) && !c->is_rerun) {
    int64_t index = cells_of(c->cells, page);
    if (index >= 0) {
      s->last.cells = c->cells->cells + index * CELLS_PER_PAGE + (s->last.begin - begin) / DWORD;
      s->last.lines = c->cells->lines + index * LINES_PER_PAGE;
      s->last.dwords = c->cells->dwords + index * CELLS_PER_PAGE;
    }
  }
  if (!drv_check_is_on(RPL_ON_UNINITIALISED)) return;
  if (a.live && a.live->initialised && !c->is_rerun)
    s->last.initialised = a.live->initialised + (s->last.begin / DWORD - a.live->begin / DWORD);
  s->last.is_saved = c->saved_places && *saved_place(c, s->last.begin) != 0;
}

static void expect(const struct rpl_shadow *s, const struct rpl_run *runs, int count) {
  struct drv_area_cache *cache = ((const struct drv_checked *)s)->areas;
  for (const struct rpl_run *run = runs; run < runs + count; run++) {
    const struct known_place *known = slot_of(cache, run->begin);
    const struct rpl_place *p = &known->place;
    if (known->generation != cache->generation || run->begin < p->begin || run->begin >= p->end) continue;
    uint64_t dword = run->begin % RPL_PAGE_BYTES / DWORD;
    if (p->lines) {
      __builtin_prefetch(p->lines + dword / RPL_LINE_DWORDS, 1);
      __builtin_prefetch(p->dwords + dword, 1);
    }
    if (p->initialised) __builtin_prefetch(p->initialised + (run->begin / DWORD - p->begin / DWORD));
  }
}

void drv_shadow_describe(const struct drv_checked *c, uint64_t address, uint32_t width, char *text, uint64_t bytes, uint64_t sites[4]) {
  struct drv_area_answer found = drv_area_find(address);
  const struct drv_area *a = found.live ? found.live : found.near;
  struct drv_variable v;
  if (!a && address - c->image.address < c->image.size && drv_elf_variable(&c->image, address, &v)) {
    if (v.is_between && address == v.begin)
      snprintf(text, bytes, "right past the end of %llu bytes of %s", (unsigned long long)v.bytes, v.name);
    else if (v.is_between)
      snprintf(text, bytes, "%llu bytes past the end of %llu bytes of %s", (unsigned long long)(address - v.begin), (unsigned long long)v.bytes, v.name);
    else
      snprintf(text, bytes, "byte %llu of %llu bytes of %s", (unsigned long long)(address - v.begin), (unsigned long long)v.bytes, v.name);
    return;
  }
  if (!a) {
    struct drv_block_place place;
    if (drv_memory_block(address, &place)) snprintf(text, bytes, "memory of the program at 0x%llx", (unsigned long long)address);
    else snprintf(text, bytes, "0x%llx, %s,", (unsigned long long)address,
                  !address ? "a null pointer" : address < RPL_PAGE_BYTES ? "near a null pointer"
                  : drv_is_host_memory(address) ? "host memory that the GPU cannot access" : "outside of all memory");
    return;
  }
  sites[1] = a->site;
  sites[2] = a->freed_site;
  const char *unit = a->end - a->begin == 1 ? "byte" : "bytes";
  unsigned long long size = a->end - a->begin, offset = address - a->begin;
  if (address < a->begin)
    snprintf(text, bytes, "%llu bytes before %llu %s allocated at {1}", (unsigned long long)(a->begin - address), size, unit);
  else if (a->is_freed)
    snprintf(text, bytes, "byte %llu of %llu %s allocated at {1}, freed at {2}", offset, size, unit);
  else if (address == a->end)
    snprintf(text, bytes, "right past the end of %llu %s allocated at {1}", size, unit);
  else if (address > a->end)
    snprintf(text, bytes, "%llu bytes past the end of %llu %s allocated at {1}", (unsigned long long)(address - a->end), size, unit);
  else if (address + width > a->end)
    snprintf(text, bytes, "the last %llu bytes past the end of %llu %s allocated at {1}", (unsigned long long)(address + width - a->end), size, unit);
  else
    snprintf(text, bytes, "byte %llu of %llu %s allocated at {1}", offset, size, unit);
}

// ---- life ----

void drv_shadow_start(struct drv_checked *c) {
  forget_saved(c);
  c->is_rerun = c->is_out_of_reach = 0;
  drv_shadow_leave(c);
  c->checks.epoch++;
  if (!(uint16_t)c->checks.epoch || c->cells->count == MOST_PAGES) {
    drop_cells(c->cells);
    c->checks.epoch = 1;
  }
}

int drv_shadow_create(struct drv_checked *c) {
  c->shadow.find = find;
  c->shadow.save = save;
  c->shadow.expect = expect;
  c->areas = calloc(1, sizeof *c->areas);
  c->cells = calloc(1, sizeof *c->cells);
  return c->areas && c->cells;
}

void drv_shadow_free(struct drv_checked *c) {
  forget_saved(c);
  if (c->cells) drop_cells(c->cells);
  free(c->cells);
  free(c->areas);
  free(c->saved);
  free(c->saved_at);
}
