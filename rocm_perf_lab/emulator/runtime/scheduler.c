// Runs workgroups of one launch on one thread. Wavefronts alternate: each runs until a barrier, its end, the end of its
// slice or a fault. An unfinished workgroup stays resident while the next one starts, so that workgroups may
// wait for each other.
#include <stdlib.h>
#include "access.h"
#include "checks.h"

enum { CACHE_LINE = 64, SYSTEM_SGPR_KINDS = 5, WORKGROUP_INFO = 3, AXES = 3, SHAPES = 1 << AXES };

enum { WAVE_STRIDE = (sizeof(struct rpl_wave) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE };  // for aligned vector code

struct resident {
  void *memory;            // of the waves
  uint8_t *waves;          // WAVE_STRIDE bytes each
  uint8_t *lds, *scratch;
  uint32_t count;          // waves of this workgroup, fewer in a partial one
  uint32_t live, waiting;  // waves not ended, waves at a barrier
  int64_t executed;        // instructions of all its waves
  uint64_t number;         // linear id
  struct rpl_counters counted;  // of its turns; only the fields of struct rpl_workgroup_counts
  struct rpl_group *group; // NULL if the checks are disabled
};

// A workgroup of one size. The last one of an axis may be partial: the hardware then starts it as if it were a smaller
// workgroup, its work-items packed into as few wavefronts as possible.
struct shape {
  uint32_t items, waves;
  uint32_t (*work_item_ids)[AXES][RPL_LANES];  // first VGPRs of each wave; NULL until a workgroup has that shape
};

struct run {
  const struct rpl_launch *launch;
  struct rpl_machine *machine;
  uint32_t waves_per_group;              // of a whole workgroup
  struct shape shapes[SHAPES];           // bit k of the index: the workgroup is partial along axis k
  struct resident **resident;
  uint32_t residents;
};

static struct rpl_wave *wave_at(const struct resident *r, uint32_t index) {
  return (struct rpl_wave *)(r->waves + (uint64_t)index * WAVE_STRIDE);
}

// ---- memory of a resident workgroup ----

static void *aligned(uint64_t bytes) {
  return aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE) / CACHE_LINE * CACHE_LINE);
}

static void release(struct resident *r) {
  if (!r) return;
  free(r->memory);
  free(r->lds);
  free(r->scratch);
  rpl_group_release(r->group);
  free(r);
}

static struct resident *create(const struct run *run) {
  struct resident *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->memory = calloc(1, (uint64_t)WAVE_STRIDE * run->waves_per_group + CACHE_LINE);  // zero pages, until registers are used
  r->waves = (uint8_t *)(((uintptr_t)r->memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  r->lds = aligned(run->launch->lds_bytes + RPL_LDS_ZEROS);
  r->scratch = aligned((uint64_t)run->launch->scratch_bytes * RPL_LANES * run->waves_per_group);
  struct rpl_checks *checks = run->launch->checks;
  if (checks) r->group = rpl_group_create(checks, run->launch->lds_bytes);
  if (r->lds) memset(r->lds + run->launch->lds_bytes, 0, RPL_LDS_ZEROS);
  if (r->memory && r->lds && r->scratch && (r->group || !checks)) return r;
  release(r);
  return NULL;
}

// ---- initial state ----

// Returns the shape of a workgroup, created on first use, or NULL if memory is short.
static const struct shape *shape_of(struct run *run, const uint32_t workgroup[AXES]) {
  const struct rpl_launch *launch = run->launch;
  uint32_t size[AXES], dims = launch->work_item_id_dims;
  int index = 0;
  for (int k = 0; k < AXES; k++) {
    int partial = launch->remainder[k] && workgroup[k] + 1 == launch->grid[k];
    size[k] = partial ? launch->remainder[k] : launch->block[k];
    index |= partial << k;
  }
  struct shape *shape = &run->shapes[index];
  if (shape->work_item_ids) return shape;
  shape->items = size[0] * size[1] * size[2];
  shape->waves = (shape->items + launch->wave_size - 1) / launch->wave_size;
  shape->work_item_ids = calloc(shape->waves, sizeof *shape->work_item_ids);
  if (!shape->work_item_ids) return NULL;
  for (uint32_t t = 0; t < shape->items; t++) {
    uint32_t x = t % size[0], y = t / size[0] % size[1], z = t / size[0] / size[1];
    uint32_t wave = t / launch->wave_size, lane = t % launch->wave_size;
    if (launch->work_item_id_rows == 1) {
      shape->work_item_ids[wave][0][lane] = x | (dims >= 1 ? y << 10 : 0) | (dims >= 2 ? z << 20 : 0);
      continue;
    }
    shape->work_item_ids[wave][0][lane] = x;
    shape->work_item_ids[wave][1][lane] = y;
    shape->work_item_ids[wave][2][lane] = z;
  }
  return shape;
}

static void set_registers(const struct run *run, const struct shape *shape, struct rpl_wave *w, uint32_t index) {
  const struct rpl_launch *launch = run->launch;
  memset(w->vgpr, 0, launch->vgpr_rows * sizeof w->vgpr[0]);
  memset(w->vgpr[256], 0, launch->agpr_rows * sizeof w->vgpr[0]);
  memcpy(w->vgpr[0], shape->work_item_ids[index], launch->work_item_id_rows * sizeof w->vgpr[0]);
  memset(w->sgpr, 0, sizeof w->sgpr);
  memcpy(w->sgpr, launch->user_sgprs, launch->user_sgpr_count * sizeof w->sgpr[0]);
  uint32_t next = launch->user_sgpr_count;
  uint32_t last_wave = (index + 1 == shape->waves) << 31;  // workgroup info, TG_SIZE in LLVM
  uint32_t values[SYSTEM_SGPR_KINDS] = {w->workgroup[0], w->workgroup[1], w->workgroup[2],
                                        last_wave | (index == 0) << 26 | index << 6 | shape->waves, 0};
  for (int k = 0; k < SYSTEM_SGPR_KINDS; k++)
    if (launch->system_sgprs >> k & 1) w->sgpr[next++] = values[k];
  uint32_t items = shape->items - index * launch->wave_size;
  uint64_t exec = rpl_lanes_below(items < launch->wave_size ? items : launch->wave_size);
  w->sgpr[126] = (uint32_t)exec;
  w->sgpr[127] = (uint32_t)(exec >> 32);
}

static struct rpl_trace *trace_of(const struct run *run, uint64_t group, uint32_t wave) {
  const uint64_t *sampled = run->launch->sampled;
  uint64_t first = 0, after = run->launch->sampled_count;
  while (first < after) {
    uint64_t middle = (first + after) / 2;
    if (sampled[middle] < group) first = middle + 1;
    else after = middle;
  }
  int found = first < run->launch->sampled_count && sampled[first] == group;
  return found ? &run->launch->traces[first * run->waves_per_group + wave] : NULL;
}

// Returns 1 if memory is short.
static int start(struct run *run, struct resident *r, uint64_t group) {
  const struct rpl_launch *launch = run->launch;
  uint32_t workgroup[AXES] = {(uint32_t)(group % launch->grid[0]), (uint32_t)(group / launch->grid[0] % launch->grid[1]),
                              (uint32_t)(group / launch->grid[0] / launch->grid[1])};
  const struct shape *shape = shape_of(run, workgroup);
  if (!shape) return 1;
  for (uint32_t i = 0; i < launch->lds_bytes / 4; i++) rpl_write32(r->lds + 4 * i, launch->lds_poison + i * launch->lds_step);
  if (r->group) rpl_group_start(r->group, (uint32_t)group, launch->lds_bytes);
  r->count = r->live = shape->waves;
  r->waiting = 0;
  r->executed = 0;
  r->number = group;
  memset(&r->counted, 0, sizeof r->counted);
  for (uint32_t index = 0; index < shape->waves; index++) {
    struct rpl_wave *w = wave_at(r, index);
    memcpy(w->workgroup, workgroup, sizeof workgroup);
    w->wave_in_workgroup = index;
    set_registers(run, shape, w, index);
    w->scc = w->resume = 0;
    w->status = RPL_SLICE_OVER;
    w->mode = launch->mode;
    w->block_executions = launch->block_executions;
    w->block_active_lanes = launch->block_active_lanes;
    w->lds = r->lds;
    w->lds_bytes = launch->lds_bytes;
    w->scratch_bytes = launch->scratch_bytes;
    w->scratch = r->scratch + (uint64_t)launch->scratch_bytes * RPL_LANES * index;
    w->machine = run->machine;
    w->group = r->group;
    w->trace = trace_of(run, group, index);
    w->workgroup_number = (uint32_t)group;
    w->waves_in_workgroup = shape->waves;
    w->vgpr_rows = launch->vgpr_rows;
    w->agpr_rows = launch->agpr_rows;
    w->lane_count = launch->wave_size;
    w->load_address = launch->load_address;
    memset(w->recent_places, 0xff, sizeof w->recent_places);
    w->oldest_place = w->memory_instructions = 0;
  }
  run->machine->counters.workgroups++;
  run->machine->counters.waves += shape->waves;
  uint32_t rest = shape->items % launch->wave_size;  // work-items of the last wave, if it is partial
  run->machine->counters.partial_waves += rest != 0;
  run->machine->counters.waves_below_48 += rest != 0 && rest < 48;
  run->machine->counters.waves_below_32 += rest != 0 && rest < 32;
  run->machine->counters.waves_below_16 += rest != 0 && rest < 16;
  run->machine->counters.work_items += shape->items;
  return 0;
}

// ---- turns ----

// Answers the host call of a wave that stopped, since callers sleep until then. Returns whether it can continue at once.
static int answers_host_call(const struct rpl_launch *launch, struct rpl_wave *w) {
  int answer = launch->host->answer(w->workgroup, w->wave_in_workgroup);
  if (answer == RPL_NO_ANSWER) rpl_raise(w, RPL_FAULT_HOST_CALL, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  return answer == RPL_ANSWERED;
}

// One slice of one wave. Returns 1 on a fault.
static int run_slice(const struct run *run, struct resident *r, struct rpl_wave *w) {
  const struct rpl_launch *launch = run->launch;
  w->slice = launch->slice_instructions;
  w->slice_end = r->executed + w->slice;
  do {
    w->status = RPL_FAULT;
    launch->kernel(w);
    if (run->machine->fault.kind) return 1;
  } while (w->status == RPL_SLICE_OVER && launch->host && *launch->host->ready && answers_host_call(launch, w));
  if (run->machine->fault.kind) return 1;
  int64_t used = (int64_t)launch->slice_instructions - w->slice;
  r->executed += used;
  if (__atomic_sub_fetch(launch->budget, used, __ATOMIC_RELAXED) < 0)
    return rpl_raise(w, r->waiting ? RPL_FAULT_BARRIER : RPL_FAULT_BUDGET, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  switch (w->status) {
    case RPL_ENDED: r->live--; return 0;
    case RPL_BARRIER:
      r->waiting++;
      if (w->group) rpl_checked_arrival(w);
      return 0;
    case RPL_SLICE_OVER: return 0;
    default: return rpl_raise(w, RPL_FAULT_ILLEGAL, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  }
}

// Runs a slice of each wave of the workgroup that can run, again after every barrier unless workgroups share work and this one
// has had its part. Returns 1 on a fault.
static int take_turn(const struct run *run, struct resident *r) {
  int64_t part = (int64_t)run->launch->slice_instructions * r->count, first = r->executed;
  int barrier_passed = 1;
  while (barrier_passed) {
    barrier_passed = 0;
    for (uint32_t i = 0; i < r->count; i++) {
      struct rpl_wave *w = wave_at(r, i);
      if (w->status == RPL_SLICE_OVER && run_slice(run, r, w)) return 1;
    }
    // Hardware removes ended waves from the barrier.
    if (r->live && r->waiting == r->live) {
      if (r->group) rpl_checked_barrier(r->group);
      for (uint32_t i = 0; i < r->count; i++)
        if (wave_at(r, i)->status == RPL_BARRIER) wave_at(r, i)->status = RPL_SLICE_OVER;
      r->waiting = 0;
      barrier_passed = !run->launch->starts_together || r->executed - first < part;
    }
  }
  return 0;
}

// A turn, with the counters of the thread that it advanced.
static int take_counted_turn(const struct run *run, struct resident *r) {
  const struct rpl_counters before = run->machine->counters, *now = &run->machine->counters;
  int failed = take_turn(run, r);
  r->counted.load_bytes += now->load_bytes - before.load_bytes;
  r->counted.store_bytes += now->store_bytes - before.store_bytes;
  r->counted.atomic_operations += now->atomic_operations - before.atomic_operations;
  r->counted.lds_active_cycles += now->lds_active_cycles - before.lds_active_cycles;
  r->counted.span_bytes += now->span_bytes - before.span_bytes;
  r->counted.address_sum += now->address_sum - before.address_sum;
  return failed;
}

static void record_counts(const struct rpl_launch *launch, const struct resident *r) {
  if (!launch->counts) return;
  launch->counts[r->number] = (struct rpl_workgroup_counts){
      .waves = r->count,
      .instructions = (uint64_t)r->executed,
      .load_bytes = r->counted.load_bytes,
      .store_bytes = r->counted.store_bytes,
      .atomic_operations = r->counted.atomic_operations,
      .lds_cycles = r->counted.lds_active_cycles,
      .span_bytes = r->counted.span_bytes,
      .address_sum = r->counted.address_sum,
  };
}

static int run_groups(struct run *run, uint64_t first, uint64_t last) {
  uint64_t next = first;
  uint32_t active = 0;
  while (next < last || active) {
    uint32_t limit = run->launch->starts_together ? run->launch->resident_workgroups : active + 1;
    while (next < last && active < run->launch->resident_workgroups && active < limit) {
      if (active == run->residents) {
        run->resident[active] = create(run);
        if (!run->resident[active]) {
          run->machine->fault.kind = RPL_FAULT_HOST_MEMORY;
          return 1;
        }
        run->residents++;
      }
      uint64_t group = run->launch->chosen ? run->launch->chosen[next] : next;
      next++;
      if (start(run, run->resident[active++], group)) {
        run->machine->fault.kind = RPL_FAULT_HOST_MEMORY;
        return 1;
      }
    }
    for (uint32_t k = 0; k < active;) {
      struct resident *r = run->resident[k];
      if (take_counted_turn(run, r)) return 1;
      if (r->live) {
        k++;
        continue;
      }
      record_counts(run->launch, r);
      active--;  // its memory is reused for the next workgroup; the others keep their order
      memmove(&run->resident[k], &run->resident[k + 1], (active - k) * sizeof *run->resident);
      run->resident[active] = r;
    }
  }
  return 0;
}

int rpl_run(const struct rpl_launch *launch, struct rpl_machine *machine, uint64_t first, uint64_t last) {
  struct run run = {.launch = launch, .machine = machine};
  run.waves_per_group = (launch->block[0] * launch->block[1] * launch->block[2] + launch->wave_size - 1) / launch->wave_size;
  run.resident = calloc(launch->resident_workgroups, sizeof *run.resident);
  int failed = 1;
  if (run.resident) {
    failed = run_groups(&run, first, last);
  } else {
    machine->fault.kind = RPL_FAULT_HOST_MEMORY;
  }
  for (uint32_t k = 0; k < run.residents; k++) release(run.resident[k]);
  free(run.resident);
  for (int k = 0; k < SHAPES; k++) free(run.shapes[k].work_item_ids);
  return failed;
}

// ---- for the binding ----

void rpl_traces_free(struct rpl_trace *traces, uint64_t count) {
  for (uint64_t k = 0; k < count; k++) free(traces[k].words);
}

// Sizes of the shared structures, for the test that compares the mirrors.
void rpl_layout(uint64_t *sizes) {
  sizes[0] = sizeof(struct rpl_wave);
  sizes[1] = sizeof(struct rpl_machine);
  sizes[2] = sizeof(struct rpl_launch);
  sizes[3] = sizeof(struct rpl_fault);
  sizes[4] = sizeof(struct rpl_counters);
  sizes[5] = sizeof(struct rpl_cell);
  sizes[6] = sizeof(struct rpl_finding);
  sizes[7] = sizeof(struct rpl_checks);
}
