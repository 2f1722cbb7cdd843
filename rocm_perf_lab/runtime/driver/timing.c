// Emulated durations and records of dispatches; see driver.h.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "detail.h"
#include "estimates.h"
#include "records.h"
#include "totals.h"

struct drv_timing {
  const struct drv_kernel *kernel;
  const struct drv_gpu *gpu;
  struct rpl_launch *launch;       // of the caller, until drv_timing_end
  struct drv_family *family;
  struct drv_detail *detail;       // NULL: the duration is scaled from an earlier estimate
  struct rpl_dispatch_entry entry;
  uint64_t instructions;           // 0: the dispatch failed
  int is_selected;                 // gets counts, and may be estimated
};

static _Atomic uint64_t dispatches;  // of this process

static uint32_t index_of(const struct drv_gpu *gpu) { return (uint32_t)(gpu - drv_settings()->gpus); }

// Whether the next dispatch of this process is to be recorded in detail.
static int selects_next(const struct drv_settings *session) {
  uint64_t number = atomic_fetch_add(&dispatches, 1);
  if (!session->record_end) return 1;
  if (number < session->record_first || number >= session->record_end) return 0;
  return session->record_every <= 1 || (number - session->record_first) % session->record_every == 0;
}

struct drv_timing *drv_timing_begin(const struct drv_kernel *kernel, uint32_t gpu_id, uint32_t queue_id, struct rpl_launch *launch,
                                    const struct drv_ranges *ranges, uint32_t threads) {
  const struct drv_gpu *gpu = drv_gpu_of_id(gpu_id);
  struct drv_timing *timing = gpu ? calloc(1, sizeof *timing) : NULL;
  if (!timing) return NULL;
  timing->kernel = kernel;
  timing->gpu = gpu;
  timing->launch = launch;
  timing->entry = (struct rpl_dispatch_entry){.id = kernel->id, .gpu = index_of(gpu), .queue = queue_id,
                                              .lds_bytes = launch->lds_bytes, .scratch_bytes = launch->scratch_bytes};
  memcpy(timing->entry.grid, launch->grid, sizeof timing->entry.grid);
  memcpy(timing->entry.block, launch->block, sizeof timing->entry.block);
  memcpy(timing->entry.remainder, launch->remainder, sizeof timing->entry.remainder);
  timing->is_selected = drv_settings()->records && selects_next(drv_settings());
  if (!drv_settings()->records || !gpu->launch_ns) return timing;
  int wanted = 0;
  timing->family = drv_family_of(kernel, launch, &wanted);
  if (wanted && timing->is_selected) timing->detail = drv_detail_create(launch, gpu->xcds, ranges, threads);
  return timing;
}

void drv_timing_thread(struct drv_timing *timing, uint32_t thread, struct rpl_machine *machine) {
  machine->run = RPL_ONLY_RUN;
  machine->footprint = timing && timing->detail ? drv_detail_footprint(timing->detail, thread) : NULL;
  machine->has_half_lines = timing && timing->gpu->vector_line_bytes == 64;
}

static struct drv_amount amount_of(const struct drv_timing *timing, const struct drv_work *work) {
  const struct rpl_launch *launch = timing->launch;
  double groups = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
  return (struct drv_amount){
      .instructions = (double)work->instructions,
      .bytes = (double)(work->counters->load_bytes + work->counters->store_bytes),
      .units = groups < timing->gpu->compute_units ? groups : timing->gpu->compute_units,
  };
}

static uint64_t estimated(struct drv_timing *timing, uint64_t dispatch_number, const struct drv_work *work) {
  struct drv_estimate estimate = {.amount = amount_of(timing, work)};
  if (drv_detail_ask(timing->detail, timing->kernel, timing->launch, timing->entry.gpu, timing->entry.queue, dispatch_number, work,
                     &estimate.duration_ns, &estimate.fixed_ns, &estimate.record) ||
      !estimate.duration_ns) {
    drv_family_give_up(timing->family);
    return drv_rough_duration(timing->gpu, timing->launch, &estimate.amount);
  }
  timing->entry.record = estimate.record;
  drv_family_add(timing->family, &estimate);
  return estimate.duration_ns;
}

uint64_t drv_timing_end(struct drv_timing *timing, uint64_t dispatch_number, const struct drv_work *work) {
  uint64_t duration = 0;
  if (!timing) return duration;
  timing->entry.dispatch = dispatch_number;
  timing->instructions = work ? work->instructions : 0;
  if (work && timing->detail) {
    duration = estimated(timing, dispatch_number, work);
  } else if (work && timing->gpu->launch_ns) {
    struct drv_amount amount = amount_of(timing, work);
    if (timing->family) duration = drv_family_scaled(timing->family, &amount, &timing->entry.record);
    if (!timing->entry.record) duration = drv_rough_duration(timing->gpu, timing->launch, &amount);
  }
  if (work && timing->is_selected) timing->entry.counts = drv_records_counts(timing->kernel, work);
  drv_detail_free(timing->detail);
  timing->detail = NULL;
  timing->launch = NULL;
  return duration;
}

void drv_timing_record(struct drv_timing *timing, uint64_t submitted_ns, uint64_t start_ns, uint64_t end_ns) {
  if (!timing) return;
  timing->entry.submitted_ns = submitted_ns;
  timing->entry.start_ns = start_ns;
  timing->entry.end_ns = end_ns;
  if (drv_settings()->records) drv_records_dispatch(&timing->entry);
  if (timing->instructions) drv_totals_add(timing->instructions, end_ns - start_ns);
  drv_detail_free(timing->detail);
  free(timing);
}

void drv_timing_record_copy(uint32_t gpu_id, uint32_t queue_id, uint64_t from, uint64_t to, uint64_t bytes, uint64_t start_ns,
                            uint64_t end_ns) {
  const struct drv_gpu *gpu = drv_gpu_of_id(gpu_id);
  if (!gpu || !drv_settings()->records) return;
  struct drv_block_place place;
  struct rpl_copy_entry entry = {.gpu = index_of(gpu), .queue = queue_id, .bytes = bytes, .start_ns = start_ns, .end_ns = end_ns};
  entry.from_gpu = drv_memory_block(from, &place) && place.is_vram;
  entry.to_gpu = drv_memory_block(to, &place) && place.is_vram;
  drv_records_copy(&entry);
}

void drv_timing_forget(void) {
  drv_families_forget();
  drv_records_forget();
  atomic_store(&dispatches, 0);
}
