// The workgroups to trace are chosen before the launch, since the memory of an application cannot be rewound for a second run: pairs
// of neighbours on an XCD from equal parts of the grid, as emulator/sampled_run.py chooses if workgroups depend on each other.
#include "detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "../../emulator/runtime/footprint.h"
#include "execution.h"
#include "service.h"

enum {
  SAMPLED_GROUPS = 16, PAIRS = SAMPLED_GROUPS / 2, CHANNEL_BITS = 4, FIXED_PARTS = 11,
  RECORDED_ACCESSES = 1 << 18,                       // of all threads
  LINES_IN_DETAIL = 1 << 13, LARGEST_SHIFT = 8,      // emulator/footprint.py
  GUESSED_BYTES = 32,                                // of memory that a work-item accesses
  COUNTED_GROUPS = 1 << 22,                          // larger grids are estimated without counts and lines
};
static const uint64_t TRACE_WORDS = 8ull << 20;      // of all traced wavefronts
// Bits of an address whose parities number a channel of L2: CHANNEL_MASKS of emulator/footprint.py.
static const uint64_t CHANNEL_MASKS[CHANNEL_BITS] = {0x81020409100, 0x102040812200, 0x204081024400, 0x408102040800};

struct drv_detail {
  uint64_t groups, sampled[SAMPLED_GROUPS], sampled_count;
  uint32_t waves_per_group, xcds, threads;
  const struct drv_ranges *ranges;                   // at the start
  struct rpl_trace *traces;                          // [sampled_count][waves_per_group]
  struct rpl_workgroup_counts *counts;               // [groups]; NULL: the grid is too large
  struct rpl_footprint *footprints;                  // [threads]
  uint32_t *memory_instructions;                     // [groups], shared by the threads: a workgroup runs on one
  uint32_t *windows;                                 // [threads][xcds][RPL_WINDOWS][channels]
  uint64_t *counted;                                 // [threads][RPL_COUNTED_LINES]
};

// ---- sample ----

static uint64_t next_random(uint64_t *state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static int is_sampled(const struct drv_detail *d, uint64_t group) {
  for (uint64_t k = 0; k < d->sampled_count; k++)
    if (d->sampled[k] == group) return 1;
  return 0;
}

static void add_sampled(struct drv_detail *d, uint64_t group) {
  if (group < d->groups && !is_sampled(d, group)) d->sampled[d->sampled_count++] = group;
}

static int ascending(const void *a, const void *b) {
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return (first > second) - (first < second);
}

// Equal grids have equal samples.
static void choose(struct drv_detail *d) {
  if (d->groups <= SAMPLED_GROUPS) {
    for (uint64_t group = 0; group < d->groups; group++) add_sampled(d, group);
    return;
  }
  uint64_t random = d->groups;
  for (uint64_t pair = 0; pair < PAIRS; pair++) {
    uint64_t begin = d->groups * pair / PAIRS, end = d->groups * (pair + 1) / PAIRS;
    uint64_t first = begin + next_random(&random) % (end - begin);
    add_sampled(d, first);
    add_sampled(d, first + d->xcds);
  }
  for (uint64_t tries = 0; d->sampled_count < SAMPLED_GROUPS && tries < SAMPLED_GROUPS; tries++)
    add_sampled(d, next_random(&random) % d->groups);
  qsort(d->sampled, d->sampled_count, sizeof d->sampled[0], ascending);
}

// ---- buffers ----

// Sampling of lines with which recording starts. It becomes coarser if the accesses exceed RECORDED_ACCESSES.
static uint32_t first_shift(const struct drv_detail *d, const struct rpl_launch *launch) {
  double items = (double)d->groups * launch->block[0] * launch->block[1] * launch->block[2];
  double lines = items * GUESSED_BYTES / RPL_CACHED_LINE_BYTES;
  double shift = lines > LINES_IN_DETAIL ? round(log2(lines / LINES_IN_DETAIL)) : 0;
  return shift < LARGEST_SHIFT ? (uint32_t)shift : LARGEST_SHIFT;
}

// Returns 1 if memory is short.
static int allocate_footprints(struct drv_detail *d, const struct rpl_launch *launch) {
  uint64_t windows = (uint64_t)d->xcds * RPL_WINDOWS << CHANNEL_BITS;
  d->footprints = calloc(d->threads, sizeof *d->footprints);
  d->memory_instructions = calloc(d->groups, sizeof *d->memory_instructions);
  d->windows = calloc(d->threads * windows, sizeof *d->windows);
  d->counted = calloc((uint64_t)d->threads * RPL_COUNTED_LINES, sizeof *d->counted);
  if (!d->footprints || !d->memory_instructions || !d->windows || !d->counted) return 1;
  for (uint32_t thread = 0; thread < d->threads; thread++) {
    struct rpl_footprint *f = &d->footprints[thread];
    f->limit = RECORDED_ACCESSES / d->threads;
    f->shift = first_shift(d, launch);
    f->memory_instructions = d->memory_instructions;
    f->xcds = d->xcds;
    f->channel_bits = CHANNEL_BITS;
    memcpy(f->channel_masks, CHANNEL_MASKS, sizeof CHANNEL_MASKS);
    f->windows = d->windows + thread * windows;
    f->counted = d->counted + (uint64_t)thread * RPL_COUNTED_LINES;
    f->known = d->ranges->ranges;
    f->known_count = d->ranges->count;
  }
  return 0;
}

struct drv_detail *drv_detail_create(struct rpl_launch *launch, uint32_t xcds, const struct drv_ranges *ranges, uint32_t threads) {
  struct drv_detail *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->groups = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  uint32_t items = launch->block[0] * launch->block[1] * launch->block[2];
  d->waves_per_group = (items + launch->wave_size - 1) / launch->wave_size;
  d->xcds = xcds ? xcds : 1;
  d->threads = threads;
  d->ranges = drv_ranges_keep(ranges);  // threads may renew theirs while the kernel runs
  choose(d);
  uint64_t waves = d->sampled_count * d->waves_per_group;
  d->traces = calloc(waves ? waves : 1, sizeof *d->traces);
  int is_counted = d->groups <= COUNTED_GROUPS;
  if (is_counted) d->counts = calloc(d->groups ? d->groups : 1, sizeof *d->counts);
  if (!d->traces || (is_counted && (!d->counts || allocate_footprints(d, launch)))) {
    drv_detail_free(d);
    return NULL;
  }
  for (uint64_t k = 0; k < waves; k++) d->traces[k].limit = TRACE_WORDS / waves;
  launch->sampled = d->sampled;
  launch->sampled_count = d->sampled_count;
  launch->traces = d->traces;
  launch->counts = d->counts;
  return d;
}

struct rpl_footprint *drv_detail_footprint(struct drv_detail *detail, uint32_t thread) {
  return detail->footprints && thread < detail->threads ? &detail->footprints[thread] : NULL;
}

void drv_detail_free(struct drv_detail *d) {
  if (!d) return;
  for (uint64_t k = 0; d->traces && k < d->sampled_count * d->waves_per_group; k++) free(d->traces[k].words);
  for (uint32_t thread = 0; d->footprints && thread < d->threads; thread++) rpl_footprint_free(&d->footprints[thread]);
  free(d->traces);
  free(d->counts);
  free(d->footprints);
  free(d->memory_instructions);
  free(d->windows);
  free(d->counted);
  drv_ranges_put(d->ranges);
  free(d);
}

// ---- the record ----

struct message { struct iovec *parts; int count; };

static void add(struct message *m, const void *data, uint64_t bytes) {
  if (bytes) m->parts[m->count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
}

// Thins the accesses of all threads to one sampling at which they do not exceed the limit together.
static uint32_t thin_to_common_level(const struct drv_detail *d) {
  uint32_t level = 0;
  for (uint32_t thread = 0; thread < d->threads; thread++)
    level = d->footprints[thread].level > level ? d->footprints[thread].level : level;
  for (uint32_t thread = 0; thread < d->threads; thread++)
    if (d->footprints[thread].level < level) rpl_footprint_thin(&d->footprints[thread], level);
  return level;
}

static void describe_footprint(const struct drv_detail *d, struct rpl_dispatch_record *record) {
  if (!d->footprints) return;
  record->sampling_shift = d->footprints[0].shift + thin_to_common_level(d);
  for (uint32_t thread = 0; thread < d->threads; thread++) {
    record->line_accesses += d->footprints[thread].count;
    record->footprint_is_truncated |= d->footprints[thread].is_truncated;
  }
  uint64_t windows = (uint64_t)d->xcds * RPL_WINDOWS << CHANNEL_BITS;
  for (uint64_t k = windows; k < d->threads * windows; k++) d->windows[k % windows] += d->windows[k];
}

static struct rpl_dispatch_record described(const struct drv_detail *d, const struct drv_kernel *kernel,
                                            const struct rpl_launch *launch, const struct drv_work *work) {
  struct rpl_dispatch_record record = {
      .id = kernel->id, .block_count = kernel->block_count, .workgroups = d->counts ? d->groups : 0,
      .instructions = work->instructions, .lds_bytes = launch->lds_bytes, .scratch_bytes = launch->scratch_bytes,
      .waves_per_workgroup = d->waves_per_group, .traced_workgroups = (uint32_t)d->sampled_count,
      .range_count = (uint32_t)d->ranges->count, .xcds = d->xcds, .channel_bits = CHANNEL_BITS,
  };
  memcpy(record.grid, launch->grid, sizeof record.grid);
  memcpy(record.block, launch->block, sizeof record.block);
  memcpy(record.remainder, launch->remainder, sizeof record.remainder);
  for (uint64_t k = 0; k < d->sampled_count * d->waves_per_group; k++)
    record.trace_is_truncated |= d->traces[k].limit && d->traces[k].limit == d->traces[k].count;
  describe_footprint(d, &record);
  return record;
}

// All parts in the order of service.h; `ends` receives the ranges, `numbers` the lengths of the traces.
static void assemble(struct message *m, const struct drv_detail *d, const struct rpl_dispatch_record *record,
                     const struct drv_work *work, uint64_t (*ends)[2]) {
  add(m, record, sizeof *record);
  add(m, work->executions, record->block_count * sizeof(uint64_t));
  add(m, work->active_lanes, record->block_count * sizeof(uint64_t));
  add(m, work->counters, sizeof *work->counters);
  add(m, d->counts, record->workgroups * sizeof *d->counts);
  for (uint64_t k = 0; k < d->ranges->count; k++) {
    ends[k][0] = d->ranges->ranges[k].begin;
    ends[k][1] = d->ranges->ranges[k].end;
  }
  add(m, ends, d->ranges->count * sizeof *ends);
  add(m, d->sampled, d->sampled_count * sizeof d->sampled[0]);
  for (uint64_t k = 0; k < d->sampled_count * d->waves_per_group; k++) {
    add(m, &d->traces[k].count, sizeof d->traces[k].count);
    add(m, d->traces[k].words, d->traces[k].count * sizeof(uint64_t));
  }
  if (!d->footprints) return;
  for (uint32_t thread = 0; thread < d->threads; thread++)
    add(m, d->footprints[thread].records, d->footprints[thread].count * sizeof *d->footprints[thread].records);
  add(m, d->windows, ((uint64_t)d->xcds * RPL_WINDOWS << CHANNEL_BITS) * sizeof *d->windows);
  add(m, d->memory_instructions, record->workgroups * sizeof *d->memory_instructions);
}

int drv_detail_ask(struct drv_detail *d, const struct drv_kernel *kernel, const struct rpl_launch *launch, uint32_t gpu, uint32_t queue,
                   uint64_t dispatch, const struct drv_work *work, uint64_t *duration_ns, uint64_t *fixed_ns, uint32_t *record_number) {
  struct rpl_dispatch_record record = described(d, kernel, launch, work);
  record.gpu = gpu;
  record.queue = queue;
  record.dispatch = dispatch;
  uint64_t parts = FIXED_PARTS + d->threads + 2 * d->sampled_count * d->waves_per_group;
  struct message message = {calloc(parts, sizeof *message.parts), 0};
  uint64_t (*ends)[2] = calloc(d->ranges->count + 1, sizeof *ends);
  struct rpl_duration *answer = NULL;
  uint64_t bytes = 0;
  uint32_t kind = 0;
  if (message.parts && ends) {
    assemble(&message, d, &record, work, ends);
    kind = drv_service_ask(RPL_RECORD, message.parts, message.count, (void **)&answer, &bytes);
  }
  int failed = kind != RPL_DURATION_IS || bytes < sizeof *answer;
  if (kind == RPL_REFUSED && bytes) drv_say_answer((char *)answer);
  if (!failed) {
    *duration_ns = answer->nanoseconds;
    *fixed_ns = answer->fixed_ns;
    *record_number = answer->record;
  }
  free(answer);
  free(ends);
  free(message.parts);
  return failed;
}
