// Runs one kernel dispatch packet: on the thread of its queue, and on helpers if it is large.
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "device_checks.h"
#include "execution.h"
#include "faults.h"
#include "service.h"
#include "findings.h"
#include "order.h"
#include "touched.h"
#include "workers.h"

enum {
  AXES = 3, SLICE = 20000, SHARING_SLICE = 1000 /* workgroups may wait for each other */, CHUNKS_PER_THREAD = 8, LARGEST_CHUNK = 16,
  HELPED_INSTRUCTIONS = 20000 /* fewer are executed before a helper wakes up */, HELPED_GROUPS = 64, HELP_AFTER_NS = 100000,
  RESIDENT_BYTES = 96 << 20, MOST_RESIDENT = 1 << 16, LDS_GRANULE = 512, LDS_POISON = (int)0xffc0dead,
  FIRST_RESTS = 16, SHORT_REST_NS = 20000, LONG_REST_NS = 200000, MAX_WORKGROUP = 1024,
};

static const int64_t UNLIMITED = INT64_MAX / 2;

// A dispatch while it runs; `task` is first, so that a helper finds it.
struct dispatch {
  struct drv_task task;
  const struct drv_kernel *kernel;
  struct rpl_launch launch;       // without what belongs to one thread
  int is_cooperative;             // its workgroups meet at a grid barrier
  struct drv_timing *timing;
  uint64_t *wave_syncs;           // of its queue; NULL: it has none
  struct drv_watched watched;
  int64_t budget;
  uint64_t workgroups, chunk;
  _Atomic uint64_t next;          // first workgroup that was not taken
  atomic_uint threads;            // that take part or did
  uint32_t helpers;
  atomic_int is_helped;
  pthread_mutex_t *merge;
  struct drv_sums sums;           // of the helpers
  struct drv_checked_dispatch checked;
  atomic_int has_fault;
  struct rpl_fault fault;
};

// ---- hooks of the scheduler ----

struct taker { struct dispatch *dispatch; uint32_t rests; };

static void invite(struct dispatch *d) {
  if (!d->helpers || atomic_exchange(&d->is_helped, 1)) return;
  drv_pool_invite(&d->task, d->helpers);
}

static int take(void *context, uint64_t *first, uint64_t *last) {
  struct taker *taker = context;
  struct dispatch *d = taker->dispatch;
  if (atomic_load_explicit(&d->next, memory_order_relaxed) >= d->workgroups) return 0;
  *first = atomic_fetch_add_explicit(&d->next, d->chunk, memory_order_relaxed);
  if (*first >= d->workgroups) return 0;
  *last = d->workgroups - *first < d->chunk ? d->workgroups : *first + d->chunk;
  taker->rests = 0;
  if (d->helpers && !atomic_load_explicit(&d->is_helped, memory_order_relaxed) && *last < d->workgroups &&
      drv_nanoseconds() - d->watched.started_ns > HELP_AFTER_NS)
    invite(d);
  return 1;
}

// All wavefronts of this thread sleep: they wait for the host, another queue or other workgroups.
static void rest(void *context) {
  struct taker *taker = context;
  uint32_t rests = taker->rests++;
  if (rests % FIRST_RESTS == FIRST_RESTS - 1) drv_events_scan();
  if (rests < FIRST_RESTS) drv_yield();
  else nanosleep(&(struct timespec){.tv_nsec = rests < 2 * FIRST_RESTS ? SHORT_REST_NS : LONG_REST_NS}, NULL);
}

// ---- initial state ----

static uint32_t put64(uint32_t *registers, uint32_t count, uint64_t value) {
  registers[count] = (uint32_t)value;
  registers[count + 1] = (uint32_t)(value >> 32);
  return count + 2;
}

// Registers in the order of the enable bits of the descriptor; emulator/initial_state.py does the same.
static void set_user_sgprs(struct rpl_launch *launch, const struct drv_kernel *kernel, const uint64_t pairs[6]) {
  static const uint32_t private_resource[4] = {0, 0x8000fffe, 0xffffffff, 0x00e00000};
  enum { PAIR_KINDS = 6, PRIVATE_SIZE = 6, GRID_COUNTS = 7 };
  uint32_t properties = kernel->properties, count = 0, *registers = launch->user_sgprs;
  if (properties & 1) {
    memcpy(registers, private_resource, sizeof private_resource);
    count = 4;
  }
  for (int bit = 1; bit < PAIR_KINDS; bit++)
    if (properties >> bit & 1) count = put64(registers, count, pairs[bit]);
  if (properties >> PRIVATE_SIZE & 1) registers[count++] = launch->scratch_bytes;
  for (int axis = 0; axis < AXES; axis++)
    if (properties >> (GRID_COUNTS + axis) & 1) registers[count++] = launch->grid[axis];
  const uint32_t slots = sizeof launch->user_sgprs / sizeof *launch->user_sgprs;
  if (kernel->preload_dwords && count + kernel->preload_dwords <= slots) {
    memcpy(registers + count, (const void *)(pairs[3] + kernel->preload_offset), kernel->preload_dwords * sizeof *registers);
    count += kernel->preload_dwords;
  }
  while (count < kernel->user_sgprs && count < slots) registers[count++] = 0;
  launch->user_sgpr_count = count;
}

static void set_resident(struct dispatch *d) {
  const struct drv_kernel *kernel = d->kernel;
  struct rpl_launch *launch = &d->launch;
  uint64_t items = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
  uint64_t waves = (items + kernel->wave_size - 1) / kernel->wave_size;
  uint64_t rows = (uint64_t)kernel->vgpr_rows + kernel->agpr_rows + RPL_TEMP_ROWS;
  uint64_t wave_bytes = rows * sizeof(uint32_t[RPL_LANES]) + RPL_PAGE_BYTES + (uint64_t)launch->scratch_bytes * RPL_LANES;
  uint64_t most = launch->starts_together ? MOST_RESIDENT : RESIDENT_BYTES / (waves * wave_bytes + launch->lds_bytes);
  launch->resident_workgroups = (uint32_t)(most < 1 ? 1 : most < d->workgroups ? most : d->workgroups);
}

// Returns the number of workgroups, or 0 if the geometry is impossible.
static uint64_t set_geometry(struct rpl_launch *launch, const struct hsa_kernel_dispatch_packet_s *packet) {
  enum { DIMENSIONS_MASK = 3 };
  int dimensions = packet->setup & DIMENSIONS_MASK;
  uint64_t workgroups = 1;
  for (int k = 0; k < AXES; k++) {
    uint32_t items = k < dimensions ? packet->grid[k] : 1, block = k < dimensions ? packet->workgroup[k] : 1;
    if (!items || !block) return 0;
    launch->grid[k] = (uint32_t)(((uint64_t)items + block - 1) / block);
    launch->block[k] = block;
    launch->remainder[k] = items % block;
    workgroups *= launch->grid[k];
  }
  return workgroups;
}

static void set_launch(struct dispatch *d, const struct hsa_kernel_dispatch_packet_s *packet, const uint64_t pairs[6]) {
  const struct drv_kernel *kernel = d->kernel;
  struct rpl_launch *launch = &d->launch;
  uint32_t scratch = packet->private_bytes > kernel->static_scratch_bytes ? packet->private_bytes : kernel->static_scratch_bytes;
  launch->scratch_bytes = (scratch + 3) & ~3u;
  launch->lds_bytes = (packet->group_bytes + LDS_GRANULE - 1) / LDS_GRANULE * LDS_GRANULE;
  if (drv_check_is_on(RPL_ON_BOUNDS)) launch->lds_bytes = (packet->group_bytes + 3) & ~3u;  // exact
  launch->lds_poison = (uint32_t)LDS_POISON;
  launch->system_sgprs = kernel->system_sgprs;
  launch->work_item_id_dims = kernel->work_item_id_dims;
  launch->work_item_id_rows = kernel->work_item_id_rows;
  launch->wave_size = kernel->wave_size;
  launch->mode = kernel->mode;
  launch->vgpr_rows = kernel->vgpr_rows;
  launch->agpr_rows = kernel->agpr_rows;
  launch->load_address = kernel->load_address;
  launch->budget = &d->budget;
  launch->starts_together = (uint32_t)d->is_cooperative;
  launch->slice_instructions = kernel->depends_on_order || launch->starts_together ? SHARING_SLICE : SLICE;
  set_resident(d);
  set_user_sgprs(launch, kernel, pairs);
}

// ---- execution ----

static void keep_fault(struct dispatch *d, const struct rpl_fault *fault) {
  if (fault->kind == RPL_FAULT_STOPPED || atomic_exchange(&d->has_fault, 1)) return;
  d->fault = *fault;
  int running = 0;
  __atomic_compare_exchange_n(&d->watched.stop, &running, RPL_STOP_FAULT, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Runs workgroups until there are no more, on this thread.
static void run(struct dispatch *d, struct worker *worker) {
  struct rpl_launch launch = d->launch;
  struct taker taker = {.dispatch = d};
  struct rpl_hooks hooks = {take, rest, &d->watched.stop, &taker, worker->arena};
  launch.hooks = &hooks;
  launch.block_executions = worker->executions;
  launch.block_active_lanes = worker->active_lanes;
  struct drv_running running = {.kernel = d->kernel, .launch = &launch, .executions = worker->executions};
  drv_timing_thread(d->timing, atomic_fetch_add(&d->threads, 1), &worker->view.machine);
  worker->view.machine.wave_syncs = d->wave_syncs;
  drv_kernel_begin(&running);
  int is_checked = drv_checks_are_on() && drv_checks_begin(&worker->checked, &d->checked, &launch);
  if (rpl_run(&launch, &worker->view.machine, 0, 0)) keep_fault(d, &worker->view.machine.fault);
  if (is_checked) drv_checks_end(worker->checked, &launch, &worker->view.machine, (uint64_t)(d->watched.first_budget - d->budget));
  drv_kernel_end(&running);
  worker->view.machine.footprint = NULL;
}

static void help(struct drv_task *task) {
  struct dispatch *d = (struct dispatch *)task;
  struct worker *worker = drv_worker();
  if (!worker) return;
  worker->view.gpu = d->watched.gpu;
  if (!drv_worker_prepare(worker, d->kernel)) return;
  run(d, worker);
  pthread_mutex_lock(d->merge);
  drv_sums_add(&d->sums, worker, d->kernel);
  pthread_mutex_unlock(d->merge);
}

static void choose_helpers(struct dispatch *d) {
  const struct drv_settings *settings = drv_settings();
  int alone = d->workgroups < 2 || settings->threads < 2 || drv_checks_are_on() || (d->kernel->depends_on_order && !settings->any_order);
  if (alone) d->chunk = 1;
  if (alone) return;
  uint64_t chunk = d->workgroups / (settings->threads * CHUNKS_PER_THREAD);
  d->chunk = chunk < 1 ? 1 : chunk > LARGEST_CHUNK ? LARGEST_CHUNK : chunk;
  d->helpers = settings->threads - 1;
  if (d->helpers >= d->workgroups) d->helpers = (uint32_t)d->workgroups - 1;
  d->task.work = help;
}

static void run_all(struct dispatch *d, struct worker *worker) {
  uint64_t weight = drv_kernel_weight(d->kernel);
  int is_large = weight ? weight * d->workgroups > HELPED_INSTRUCTIONS * 2 : d->workgroups >= HELPED_GROUPS;
  pthread_mutex_t merge = PTHREAD_MUTEX_INITIALIZER;
  d->merge = &merge;
  drv_watch_begin(&d->watched);
  if (is_large) invite(d);
  run(d, worker);
  if (atomic_load(&d->is_helped)) {
    drv_pool_finish(&d->task);
    drv_sums_take(&d->sums, worker, d->kernel);
  }
  drv_watch_end(&d->watched);
}

static void begin(struct dispatch *d, const struct drv_queue_info *queue, uint64_t number, const atomic_int *stop) {
  const struct drv_settings *settings = drv_settings();
  d->budget = settings->max_instructions ? settings->max_instructions : UNLIMITED;
  d->watched = (struct drv_watched){.kernel = d->kernel->name, .queue_id = queue->queue_id, .gpu = (uint32_t)drv_gpu_index(queue->gpu_id),
                                    .number = number,
                                    .workgroups = d->workgroups, .started_ns = drv_nanoseconds(), .budget = &d->budget,
                                    .first_budget = d->budget, .begun = &d->next, .queue_stop = stop};
}

static uint32_t refuse(struct drv_outcome *outcome, uint32_t failure, const char *text) {
  if (text) drv_say(text);
  return outcome->failed = failure;
}

// Whether workgroups may wait for each other: the runtime passes the barrier of the grid in cooperative launches only.
static int has_grid_barrier(const struct drv_kernel *kernel, struct worker *worker, uint64_t kernarg) {
  uint64_t at = kernarg + kernel->cooperative - 1, barrier;
  if (kernel->cooperative == RPL_GLOBAL_WAVE_SYNC) return 1;
  if (!kernel->cooperative || !drv_view_has(&worker->view, at, at + sizeof barrier)) return 0;
  memcpy(&barrier, (const void *)at, sizeof barrier);
  return barrier != 0;
}

// Checks the packet. Returns whether it can run.
static int accept(struct dispatch *d, struct worker *worker, const struct drv_queue_info *queue,
                  const struct hsa_kernel_dispatch_packet_s *packet, struct drv_outcome *outcome) {
  enum { ERROR_BYTES = 4096, DESCRIPTOR_BYTES = 64 };
  char error[ERROR_BYTES];
  uint64_t items = (uint64_t)packet->workgroup[0] * packet->workgroup[1] * packet->workgroup[2];
  d->workgroups = set_geometry(&d->launch, packet);
  if (!d->workgroups) return !refuse(outcome, RPL_FAILED_DIMENSIONS, NULL);
  if (items > MAX_WORKGROUP) return !refuse(outcome, RPL_FAILED_WORKGROUP, NULL);
  uint32_t most_lds = drv_gpu_of_id(queue->gpu_id)->lds_bytes;
  if (most_lds && packet->group_bytes > most_lds) return !refuse(outcome, RPL_FAILED_LDS_SIZE, NULL);
  if (!drv_view_has(&worker->view, packet->object, packet->object + DESCRIPTOR_BYTES))
    return !refuse(outcome, RPL_FAILED_TRANSLATION, "a kernel is not in memory that the GPU can access");
  d->kernel = drv_kernel_of(queue->gpu_id, packet->object, error, sizeof error);
  if (!d->kernel) {
    drv_say_answer(error);
    return !refuse(outcome, RPL_FAILED_TRANSLATION, NULL);
  }
  d->is_cooperative = has_grid_barrier(d->kernel, worker, packet->kernarg);
  uint64_t first = packet->kernarg + d->kernel->preload_offset;
  if (d->kernel->preload_dwords && !drv_view_has(&worker->view, first, first + 4ull * d->kernel->preload_dwords)) {
    outcome->address = first;
    return !refuse(outcome, RPL_FAILED_MEMORY, NULL);
  }
  if (!drv_worker_prepare(worker, d->kernel)) return !refuse(outcome, RPL_FAILED_TRANSLATION, "too little memory");
  return 1;
}

void drv_dispatch(const struct drv_queue_info *queue, const struct hsa_kernel_dispatch_packet_s *packet, uint64_t packet_address,
                  uint64_t dispatch_number, const atomic_int *stop, struct drv_outcome *outcome) {
  struct dispatch d;
  memset(&d, 0, offsetof(struct dispatch, fault));
  memset(outcome, 0, sizeof *outcome);
  struct worker *worker = drv_worker();
  if (!worker) {
    refuse(outcome, RPL_FAILED_TRANSLATION, "too little memory");
    return;
  }
  worker->view.gpu = (uint32_t)drv_gpu_index(queue->gpu_id);
  if (!accept(&d, worker, queue, packet, outcome)) return;
  begin(&d, queue, dispatch_number, stop);
  const uint64_t pairs[] = {0, packet_address, queue->amd_queue, packet->kernarg, dispatch_number, 0};
  set_launch(&d, packet, pairs);
  d.wave_syncs = drv_queue_wave_syncs(queue->queue_id);
  d.checked = (struct drv_checked_dispatch){.kernel = d.kernel, .watched = &d.watched, .kernarg = packet->kernarg};
  struct drv_op *op = drv_order_of_packet(queue->amd_queue, dispatch_number, &d.checked.site);
  if (op) d.checked.touched = drv_touched_create();
  memcpy(d.checked.grid, d.launch.grid, sizeof d.checked.grid);
  memcpy(d.checked.block, d.launch.block, sizeof d.checked.block);
  choose_helpers(&d);
  d.timing = drv_timing_begin(d.kernel, queue->gpu_id, queue->queue_id, &d.launch, worker->view.ranges, d.helpers + 1);
  run_all(&d, worker);
  if (d.checked.touched) drv_order_dispatched(op, d.kernel, d.checked.touched);
  drv_order_put(op);
  int64_t instructions = d.watched.first_budget - d.budget;
  struct drv_work work = {worker->executions, worker->active_lanes, &worker->view.machine.counters, (uint64_t)instructions};
  outcome->timing = d.timing;
  const struct rpl_fault *fault = atomic_load(&d.has_fault) ? &d.fault : NULL;
  outcome->failed = drv_fault_outcome(fault, &d.watched, d.kernel, &d.launch, &outcome->address);
  outcome->duration_ns = drv_timing_end(d.timing, dispatch_number, outcome->failed ? NULL : &work);
  if (!outcome->failed) drv_kernel_weigh(d.kernel, (uint64_t)instructions / d.workgroups + 1);
}
