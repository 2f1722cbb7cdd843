// Every operation is compared with the earlier ones that are kept: those of each stream, up to a limit of number and memory. Streams
// whose operations all happen before it are left out.
#include "races.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "findings.h"
#include "host_races.h"

enum { MOST_KEPT = 2048, MOST_KEPT_PAGES = 1 << 18, MOST_EXTENTS = 2, TEXT_BYTES = 1024, WORD_BITS = 64, PAGE_BYTES = 4096 };

// What one operation accessed: pages of a dispatch, or extents of a copy.
struct kept {
  struct kept *next, *next_in_stream;
  struct drv_op op;               // a copy
  const struct drv_kernel *kernel;
  struct drv_touched *touched;    // NULL: extents
  struct drv_extent extents[MOST_EXTENTS];
  int extent_count;
  int meets_host;                 // coherent accesses to the host's memory: the host may order it by flags
};
struct conflict { uint64_t address, bytes; int first_writes, second_writes; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept, **kept_end = &kept;   // oldest first
static uint64_t kept_count, kept_pages;
static struct kept *first_of[RPL_CLOCK_STREAMS], *last_of[RPL_CLOCK_STREAMS];   // the same, by stream
static uint32_t newest_of[RPL_CLOCK_STREAMS];   // highest number of an operation of the stream that was kept

static uint64_t pages_of(const struct kept *k) { return k->touched ? k->touched->count : 0; }

static void drop_oldest(void) {
  struct kept *k = kept;
  kept = k->next;
  if (!kept) kept_end = &kept;
  first_of[k->op.stream] = k->next_in_stream;
  kept_count--;
  kept_pages -= pages_of(k);
  drv_touched_free(k->touched);
  free(k);
}

static int is_in_same_graph(const struct drv_op *a, const struct drv_op *b) { return a->graph_launch && a->graph_launch == b->graph_launch; }

static int is_before(const struct drv_op *a, const struct drv_op *b) {
  if (is_in_same_graph(a, b)) return a->node == b->node || b->ancestors[a->node / WORD_BITS] >> a->node % WORD_BITS & 1;
  return b->clock.at[a->stream] >= a->number;
}

// ---- conflicts ----

// Bytes of word `w` that both access, one of them by a plain access, one of them by a write.
static uint64_t conflicting(const struct drv_touched_page *a, const struct drv_touched_page *b, int w) {
  uint64_t x[RPL_TOUCHES], y[RPL_TOUCHES];
  for (int k = 0; k < RPL_TOUCHES; k++) {
    x[k] = a->bits[k] ? a->bits[k][w] : 0;
    y[k] = b->bits[k] ? b->bits[k][w] : 0;
  }
  enum { R = RPL_TOUCH_READ, W = RPL_TOUCH_WRITE, CR = RPL_TOUCH_COHERENT_READ, CW = RPL_TOUCH_COHERENT_WRITE };
  return (x[W] & (y[R] | y[W] | y[CR] | y[CW])) | (y[W] & (x[R] | x[CR] | x[CW])) | (x[R] & y[CW]) | (y[R] & x[CW]);
}

// Whether one may learn from the other through an atomic or coherent access, and so wait for it.
static int communicates(const struct drv_touched_page *a, const struct drv_touched_page *b) {
  enum { CR = RPL_TOUCH_COHERENT_READ, CW = RPL_TOUCH_COHERENT_WRITE };
  for (int w = 0; w < RPL_TOUCH_WORDS; w++) {
    if (a->bits[CW] && b->bits[CR] && a->bits[CW][w] & b->bits[CR][w]) return 1;
    if (a->bits[CR] && b->bits[CW] && a->bits[CR][w] & b->bits[CW][w]) return 1;
  }
  return 0;
}

static int writes_at(const struct drv_touched_page *p, int w, uint64_t bits) {
  return (p->bits[RPL_TOUCH_WRITE] && p->bits[RPL_TOUCH_WRITE][w] & bits) ||
         (p->bits[RPL_TOUCH_COHERENT_WRITE] && p->bits[RPL_TOUCH_COHERENT_WRITE][w] & bits);
}

// Adds the conflicts of a page. Returns whether the two communicate.
static int compare_pages(const struct drv_touched_page *a, const struct drv_touched_page *b, struct conflict *c) {
  if (communicates(a, b)) return 1;
  for (int w = 0; w < RPL_TOUCH_WORDS; w++) {
    uint64_t bits = conflicting(a, b, w);
    if (!bits) continue;
    uint64_t address = (a->number - 1) * PAGE_BYTES + (uint64_t)w * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
    if (!c->bytes || address < c->address) c->address = address;
    c->bytes += (uint64_t)__builtin_popcountll(bits);
    c->first_writes |= writes_at(a, w, bits);
    c->second_writes |= writes_at(b, w, bits);
  }
  return 0;
}

static void compare_touched(const struct drv_touched *a, const struct drv_touched *b, struct conflict *c) {
  int is_swapped = a->count > b->count;
  const struct drv_touched *small = is_swapped ? b : a, *large = is_swapped ? a : b;
  for (uint64_t k = 0; k < small->capacity; k++) {
    if (!small->pages[k].number) continue;
    const struct drv_touched_page *other = drv_touched_find(large, small->pages[k].number - 1);
    if (!other) continue;
    if (compare_pages(is_swapped ? other : &small->pages[k], is_swapped ? &small->pages[k] : other, c)) {
      c->bytes = 0;
      return;
    }
  }
}

static void compare_range(const struct drv_touched *a, uint64_t begin, uint64_t end, int writes, struct conflict *c) {
  for (uint64_t at = begin; at < end; at = (at | (PAGE_BYTES - 1)) + 1) {
    const struct drv_touched_page *page = drv_touched_find(a, at / PAGE_BYTES);
    uint64_t last = (at | (PAGE_BYTES - 1)) + 1 < end ? (at | (PAGE_BYTES - 1)) + 1 : end;
    for (uint64_t byte = at; page && byte < last; byte++) {
      uint64_t w = byte % PAGE_BYTES / WORD_BITS, bit = 1ull << byte % WORD_BITS;
      int is_read = 0, is_written = writes_at(page, (int)w, bit);
      if (writes)
        for (int k = 0; k < RPL_TOUCHES; k++) is_read |= page->bits[k] && page->bits[k][w] & bit;
      if (!is_written && !is_read) continue;
      if (!c->bytes) c->address = byte;
      c->bytes++;
      c->first_writes |= is_written;
      c->second_writes |= writes;
    }
  }
}

static void compare_with_copy(const struct kept *a, const struct kept *copy, struct conflict *c) {
  for (int k = 0; k < copy->extent_count; k++) {
    const struct drv_extent *e = &copy->extents[k];
    for (uint64_t row = 0; row < e->rows; row++)
      compare_range(a->touched, e->address + row * e->pitch, e->address + row * e->pitch + e->bytes, e->writes, c);
  }
}

// Rows of a copy whose other side has none are those of a range.
static void compare_extents(const struct drv_extent *a, const struct drv_extent *b, struct conflict *c) {
  if (!a->writes && !b->writes) return;
  uint64_t a_end = a->address + (a->rows - 1) * a->pitch + a->bytes, b_end = b->address + (b->rows - 1) * b->pitch + b->bytes;
  if (a->address >= b_end || b->address >= a_end) return;
  for (uint64_t i = 0; i < a->rows; i++) {
    uint64_t x = a->address + i * a->pitch;
    uint64_t first = b->rows > 1 && b->pitch && x > b->address + b->bytes ? (x - b->address - b->bytes) / b->pitch : 0;
    for (uint64_t j = first; j < b->rows && b->address + j * b->pitch < x + a->bytes; j++) {
      uint64_t y = b->address + j * b->pitch, begin = x > y ? x : y;
      uint64_t end = x + a->bytes < y + b->bytes ? x + a->bytes : y + b->bytes;
      if (begin >= end) continue;
      if (!c->bytes) c->address = begin;
      c->bytes += end - begin;
      c->first_writes |= a->writes;
      c->second_writes |= b->writes;
    }
  }
}

static void compare(const struct kept *a, const struct kept *b, struct conflict *c) {
  if (a->touched && b->touched) {
    compare_touched(a->touched, b->touched, c);
  } else if (a->touched) {
    compare_with_copy(a, b, c);
  } else if (b->touched) {
    compare_with_copy(b, a, c);
    int swap = c->first_writes;
    c->first_writes = c->second_writes;
    c->second_writes = swap;
  } else {
    for (int i = 0; i < a->extent_count; i++)
      for (int j = 0; j < b->extent_count; j++) compare_extents(&a->extents[i], &b->extents[j], c);
  }
}

// ---- findings ----

static const char *verb(int writes) { return writes ? "writes" : "reads"; }

static const char *began(const struct kept *k) { return k->kernel ? "launched" : "called"; }

static const char *verb_of(const struct drv_op *op, int writes) {
  if (!strcmp(op->what, "hipMallocAsync")) return "allocates";
  return strcmp(op->what, "hipFreeAsync") ? verb(writes) : "frees";
}

static void report(const struct kept *a, const struct kept *b, const struct conflict *c) {
  char text[TEXT_BYTES], name[TEXT_BYTES / 4];
  struct drv_allocation allocation = {0};
  int is_known = drv_allocation_at(c->address, &allocation);
  if (b->kernel) snprintf(name, sizeof name, "kernel %.200s", b->kernel->name);
  else snprintf(name, sizeof name, "%s", b->op.what);
  const char *self = a->kernel ? "the kernel" : a->op.what;
  int is_graph = is_in_same_graph(&a->op, &b->op);
  char place[TEXT_BYTES / 16] = "in the same graph";
  if (!is_graph) snprintf(place, sizeof place, "%s at {1}", began(b));
  int length = snprintf(text, sizeof text, "%s %s at {0} %s %llu bytes that %s, %s, %s%s, and neither %s the other", self, began(a),
                        verb_of(&a->op, c->first_writes), (unsigned long long)c->bytes, name, place, verb_of(&b->op, c->second_writes),
                        is_known ? " (memory allocated at {2})" : "", is_graph ? "depends on" : "waits for");
  if (length < 0) return;
  struct drv_finding f = {.check = RPL_ON_RACES, .kind = "stream_race", .message = text, .sites = {a->op.site, b->op.site, allocation.site},
                          .kernel = a->kernel, .key = b->op.site ^ (uint64_t)b->op.node << 48};
  drv_find(&f);
}

// Whichever ended first, the finding is about the operation that the host began last.
static int is_later(const struct drv_op *a, const struct drv_op *b) { return a->call != b->call ? a->call > b->call : a->node > b->node; }

static void report_conflict(const struct kept *a, const struct kept *b) {
  const struct kept *late = is_later(&a->op, &b->op) ? a : b, *early = late == a ? b : a;
  struct conflict c = {0};
  compare(late, early, &c);
  if (c.bytes) report(late, early, &c);
}

// ---- operations ----

static void keep(struct kept *k) {
  uint32_t stream = k->op.stream;
  k->next = k->next_in_stream = NULL;
  *kept_end = k;
  kept_end = &k->next;
  *(first_of[stream] ? &last_of[stream]->next_in_stream : &first_of[stream]) = k;
  last_of[stream] = k;
  if (k->op.number > newest_of[stream]) newest_of[stream] = k->op.number;
  kept_count++;
  kept_pages += pages_of(k);
  while (kept && (kept_count > MOST_KEPT || (kept_pages > MOST_KEPT_PAGES && kept_count > 1))) drop_oldest();
}

static void compare_with_stream(const struct kept *k, uint32_t stream) {
  int has_nodes_of_its_graph = k->op.graph_launch && stream == k->op.stream;  // which the clocks do not order
  if (k->op.clock.at[stream] >= newest_of[stream] && !has_nodes_of_its_graph) return;
  for (const struct kept *other = first_of[stream]; other; other = other->next_in_stream) {
    if (other->meets_host || is_before(&other->op, &k->op) || is_before(&k->op, &other->op)) continue;
    report_conflict(k, other);
  }
}

static void add(struct kept *k) {
  pthread_mutex_lock(&lock);
  for (uint32_t stream = 0; stream < RPL_CLOCK_STREAMS && !k->meets_host; stream++)
    if (first_of[stream]) compare_with_stream(k, stream);
  keep(k);
  pthread_mutex_unlock(&lock);
}

void drv_races_all_ended(void) {
  pthread_mutex_lock(&lock);
  while (kept) drop_oldest();
  pthread_mutex_unlock(&lock);
}

static struct kept *create(const struct drv_op *op) {
  struct kept *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->op = *op;
  return k;
}

void drv_races_of_copy(const struct drv_op *op, const struct drv_extent *extents, int count) {
  struct kept *k = create(op);
  if (!k) return;
  for (int n = 0; n < count && k->extent_count < MOST_EXTENTS; n++)
    if (extents[n].bytes && extents[n].rows) k->extents[k->extent_count++] = extents[n];
  if (k->extent_count) add(k);
  else free(k);
}

static int meets_host(const struct drv_touched *t) {
  for (uint64_t k = 0; k < t->capacity; k++) {
    const struct drv_touched_page *p = &t->pages[k];
    struct drv_allocation a;
    if (!p->number || (!p->bits[RPL_TOUCH_COHERENT_READ] && !p->bits[RPL_TOUCH_COHERENT_WRITE])) continue;
    for (int w = 0; w < RPL_TOUCH_WORDS; w++) {
      uint64_t bits = (p->bits[RPL_TOUCH_COHERENT_READ] ? p->bits[RPL_TOUCH_COHERENT_READ][w] : 0) |
                      (p->bits[RPL_TOUCH_COHERENT_WRITE] ? p->bits[RPL_TOUCH_COHERENT_WRITE][w] : 0);
      if (!bits) continue;
      uint64_t address = (p->number - 1) * PAGE_BYTES + (uint64_t)w * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
      if (drv_allocation_at(address, &a) && a.kind != RPL_DEVICE_MEMORY && a.kind != RPL_STREAM_MEMORY) return 1;
      break;                      // one allocation per page
    }
  }
  return 0;
}

void drv_races_of_dispatch(const struct drv_op *op, const struct drv_kernel *kernel, struct drv_touched *touched) {
  struct kept *k = create(op);
  if (!k) {
    drv_touched_free(touched);
    return;
  }
  k->kernel = kernel;
  k->touched = touched;
  k->meets_host = meets_host(touched);
  if (!k->meets_host) drv_host_races_guard_touched(op, touched);
  add(k);
}

// What an operation does with a byte: enum drv_touch bits of a plain load and store.
static int accesses_at(const struct kept *k, uint64_t address) {
  int found = 0;
  if (k->touched) {
    const struct drv_touched_page *page = drv_touched_find(k->touched, address / PAGE_BYTES);
    uint64_t w = address % PAGE_BYTES / WORD_BITS, bit = 1ull << address % WORD_BITS;
    for (int t = RPL_TOUCH_READ; page && t <= RPL_TOUCH_WRITE; t++)
      if (page->bits[t] && page->bits[t][w] & bit) found |= 1 << t;
    return found;
  }
  struct drv_extent byte = {address, 1, 1, 0, 1};
  for (int n = 0; n < k->extent_count; n++) {
    struct conflict c = {0};
    compare_extents(&byte, &k->extents[n], &c);
    if (c.bytes) found |= 1 << (k->extents[n].writes ? RPL_TOUCH_WRITE : RPL_TOUCH_READ);
  }
  return found;
}

static void describe_host_race(const struct kept *k, uint64_t address, int writes, int is_written, struct drv_finding *f, char *text, uint64_t bytes) {
  struct drv_allocation a = {0};
  drv_allocation_at(address, &a);
  char name[TEXT_BYTES / 4];
  snprintf(name, sizeof name, k->kernel ? "kernel %.200s" : "%.200s", k->kernel ? k->kernel->name : k->op.what);
  int length = snprintf(text, bytes, "the host %s byte %llu of %llu bytes allocated at {2}, which %s, %s at {1}, %s, without waiting for it",
                        verb(writes), (unsigned long long)(address - a.address), (unsigned long long)a.bytes, name, began(k), verb(is_written));
  f->sites[1] = length < 0 ? 0 : k->op.site;
  f->sites[2] = a.site;
  f->key = k->op.site;
}

int drv_races_of_host(const struct drv_clock *host, uint64_t address, int writes, struct drv_finding *finding, char *text, uint64_t bytes) {
  int races = 0;
  pthread_mutex_lock(&lock);
  for (const struct kept *k = kept; k && !races; k = k->next) {
    if (k->meets_host || host->at[k->op.stream] >= k->op.number) continue;
    int found = accesses_at(k, address), is_written = found >> RPL_TOUCH_WRITE & 1;
    races = is_written || (writes && found);
    if (races) describe_host_race(k, address, writes, is_written, finding, text, bytes);
  }
  pthread_mutex_unlock(&lock);
  return races;
}

void drv_races_forget(void) {
  pthread_mutex_init(&lock, NULL);
  kept = NULL;
  kept_end = &kept;
  kept_count = kept_pages = 0;
  memset(first_of, 0, sizeof first_of);
  memset(newest_of, 0, sizeof newest_of);
}
