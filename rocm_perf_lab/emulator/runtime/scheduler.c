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

// Memory of resident workgroups, which a driver keeps between launches.
struct rpl_arena {
  struct resident **resident;
  uint32_t residents, capacity;
  uint32_t waves, lds_bytes;             // of each of them, at least those of the launch
  uint64_t scratch_bytes;
  struct shape shapes[SHAPES];           // bit k of the index: the workgroup is partial along axis k
  uint32_t shaped_for[3 * AXES];         // what the shapes depend on: workgroup, remainder, wavefront and layout of the ids
};

struct run {
  const struct rpl_launch *launch;
  struct rpl_machine *machine;
  struct rpl_arena *arena;
  uint32_t waves_per_group;              // of a whole workgroup
  uint32_t awake;                        // slices of this round that did not end by sleeping
  uint64_t next, last;                   // workgroups to start
};

static struct rpl_wave *wave_at(const struct resident *r, uint32_t index) {
  return (struct rpl_wave *)(r->waves + (uint64_t)index * WAVE_STRIDE);
}

// ---- memory of a resident workgroup ----

enum { KEPT_BYTES = 32 << 20, KEPT_RESIDENTS = 4096 };

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
  const struct rpl_arena *arena = run->arena;
  struct resident *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->memory = calloc(1, (uint64_t)WAVE_STRIDE * arena->waves + CACHE_LINE);  // zero pages, until registers are used
  r->waves = (uint8_t *)(((uintptr_t)r->memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  r->lds = aligned((uint64_t)arena->lds_bytes + RPL_LDS_ZEROS + RPL_LDS_DROPPED);
  r->scratch = aligned(arena->scratch_bytes);
  if (r->memory && r->lds && r->scratch) return r;
  release(r);
  return NULL;
}

static void shrink(struct rpl_arena *arena, uint32_t kept) {
  while (arena->residents > kept) release(arena->resident[--arena->residents]);
}

static void forget_shapes(struct rpl_arena *arena) {
  for (int k = 0; k < SHAPES; k++) {
    free(arena->shapes[k].work_item_ids);
    arena->shapes[k].work_item_ids = NULL;
  }
}

// Makes the arena fit a launch. Returns 1 if memory is short.
static int prepare(struct rpl_arena *arena, const struct rpl_launch *launch, uint32_t waves) {
  uint64_t scratch = (uint64_t)launch->scratch_bytes * RPL_LANES * waves;
  if (waves > arena->waves || launch->lds_bytes > arena->lds_bytes || scratch > arena->scratch_bytes) {
    shrink(arena, 0);
    if (waves > arena->waves) arena->waves = waves;
    if (launch->lds_bytes > arena->lds_bytes) arena->lds_bytes = launch->lds_bytes;
    if (scratch > arena->scratch_bytes) arena->scratch_bytes = scratch;
  }
  uint32_t wanted[3 * AXES] = {launch->block[0], launch->block[1], launch->block[2], launch->remainder[0], launch->remainder[1],
                               launch->remainder[2], launch->wave_size, launch->work_item_id_dims, launch->work_item_id_rows};
  if (memcmp(wanted, arena->shaped_for, sizeof wanted) != 0) {
    forget_shapes(arena);
    memcpy(arena->shaped_for, wanted, sizeof wanted);
  }
  if (launch->resident_workgroups <= arena->capacity) return 0;
  void *grown = realloc(arena->resident, launch->resident_workgroups * sizeof *arena->resident);
  if (!grown) return 1;
  arena->resident = grown;
  arena->capacity = launch->resident_workgroups;
  return 0;
}

// After a launch: keeps some memory for the next one.
static void trim(struct rpl_arena *arena, const struct rpl_launch *launch) {
  uint64_t rows = launch->vgpr_rows + launch->agpr_rows + (uint64_t)RPL_TEMP_ROWS;
  uint64_t bytes = arena->waves * (rows * sizeof(uint32_t[RPL_LANES]) + RPL_PAGE_BYTES) + arena->lds_bytes + arena->scratch_bytes;
  uint64_t kept = KEPT_BYTES / bytes;
  shrink(arena, kept > KEPT_RESIDENTS ? KEPT_RESIDENTS : (uint32_t)kept);
  if (kept) return;
  arena->waves = arena->lds_bytes = 0;
  arena->scratch_bytes = 0;
}

static void clear(struct rpl_arena *arena) {
  shrink(arena, 0);
  free(arena->resident);
  forget_shapes(arena);
}

struct rpl_arena *rpl_arena_create(void) { return calloc(1, sizeof(struct rpl_arena)); }

void rpl_arena_free(struct rpl_arena *arena) {
  if (!arena) return;
  clear(arena);
  free(arena);
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
  struct shape *shape = &run->arena->shapes[index];
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

// Gives a resident workgroup the shadow that the launch needs; an earlier launch may have had others. Returns 1 if memory is short.
static int set_shadow(struct resident *r, const struct rpl_launch *launch) {
  if (r->group && launch->checks && rpl_group_fits(r->group, launch->checks, launch->lds_bytes)) return 0;
  rpl_group_release(r->group);
  r->group = launch->checks ? rpl_group_create(launch->checks, launch->lds_bytes) : NULL;
  return launch->checks && !r->group;
}

// Returns 1 if memory is short.
static int start(struct run *run, struct resident *r, uint64_t group) {
  const struct rpl_launch *launch = run->launch;
  uint32_t workgroup[AXES] = {(uint32_t)(group % launch->grid[0]), (uint32_t)(group / launch->grid[0] % launch->grid[1]),
                              (uint32_t)(group / launch->grid[0] / launch->grid[1])};
  const struct shape *shape = shape_of(run, workgroup);
  if (!shape || set_shadow(r, launch)) return 1;
  for (uint32_t i = 0; i < launch->lds_bytes / 4; i++) rpl_write32(r->lds + 4 * i, launch->lds_poison + i * launch->lds_step);
  memset(r->lds + launch->lds_bytes, 0, RPL_LDS_ZEROS);
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
static int run_slice(struct run *run, struct resident *r, struct rpl_wave *w) {
  const struct rpl_launch *launch = run->launch;
  if (launch->hooks && __atomic_load_n(launch->hooks->stop, __ATOMIC_RELAXED))
    return rpl_raise(w, RPL_FAULT_STOPPED, -1, RPL_LOAD, 0, 0, NULL, w->resume);
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
  run->awake += w->status != RPL_SLICE_OVER || w->slice <= 0;
  if (__atomic_sub_fetch(launch->budget, used, __ATOMIC_RELAXED) < 0)
    return rpl_raise(w, r->waiting ? RPL_FAULT_BARRIER : RPL_FAULT_BUDGET, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  switch (w->status) {
    case RPL_ENDED: r->live--; return 0;
    case RPL_BARRIER:
      r->waiting++;
      if (w->group) rpl_checked_arrival(w);
      return 0;
    case RPL_SLICE_OVER:
    case RPL_GRID_BARRIER: return 0;
    default: return rpl_raise(w, RPL_FAULT_ILLEGAL, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  }
}

// Lets a wave continue whose barrier of the grid was released. Returns 1 if the launch has to end.
static int leave_grid_barrier(const struct run *run, struct rpl_wave *w) {
  if (rpl_gws_released(w)) w->status = RPL_SLICE_OVER;
  else if (__atomic_load_n(run->launch->hooks->stop, __ATOMIC_RELAXED))
    return rpl_raise(w, RPL_FAULT_STOPPED, -1, RPL_LOAD, 0, 0, NULL, w->resume);
  return 0;
}

// Runs a slice of each wave of the workgroup that can run, again after every barrier unless workgroups share work and this one
// has had its part. Returns 1 on a fault.
static int take_turn(struct run *run, struct resident *r) {
  int64_t part = (int64_t)run->launch->slice_instructions * r->count, first = r->executed;
  int barrier_passed = 1;
  while (barrier_passed) {
    barrier_passed = 0;
    for (uint32_t i = 0; i < r->count; i++) {
      struct rpl_wave *w = wave_at(r, i);
      if (w->status == RPL_GRID_BARRIER && leave_grid_barrier(run, w)) return 1;
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
static int take_counted_turn(struct run *run, struct resident *r) {
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

// Returns whether there is another workgroup to start.
static int has_next(struct run *run) {
  if (run->next < run->last) return 1;
  const struct rpl_hooks *hooks = run->launch->hooks;
  return hooks && hooks->take(hooks->context, &run->next, &run->last);
}

// Starts the next workgroup after the `active` ones. Returns 1 if memory is short.
static int start_next(struct run *run, uint32_t active) {
  struct rpl_arena *arena = run->arena;
  if (active == arena->residents) {
    arena->resident[active] = create(run);
    if (!arena->resident[active]) return 1;
    arena->residents++;
  }
  uint64_t group = run->launch->chosen ? run->launch->chosen[run->next] : run->next;
  run->next++;
  return start(run, arena->resident[active], group);
}

// A turn of each active workgroup. Returns 1 on a fault.
static int take_round(struct run *run, uint32_t *active) {
  struct resident **resident = run->arena->resident;
  run->awake = 0;
  for (uint32_t k = 0; k < *active;) {
    struct resident *r = resident[k];
    if (take_counted_turn(run, r)) return 1;
    if (r->live) {
      k++;
      continue;
    }
    record_counts(run->launch, r);
    --*active;  // its memory is reused for the next workgroup; the others keep their order
    memmove(&resident[k], &resident[k + 1], (*active - k) * sizeof *resident);
    resident[*active] = r;
  }
  return 0;
}

static int run_groups(struct run *run) {
  const struct rpl_launch *launch = run->launch;
  uint32_t active = 0;
  for (;;) {
    uint32_t limit = launch->starts_together ? launch->resident_workgroups : active + 1, before = active;
    while (active < launch->resident_workgroups && active < limit && has_next(run)) {
      if (start_next(run, active++)) {
        run->machine->fault.kind = RPL_FAULT_HOST_MEMORY;
        return 1;
      }
    }
    if (!active) return 0;
    int all_started = active == before;
    if (take_round(run, &active)) return 1;
    if (all_started && !run->awake && launch->hooks) launch->hooks->rest(launch->hooks->context);
  }
}

int rpl_run(const struct rpl_launch *launch, struct rpl_machine *machine, uint64_t first, uint64_t last) {
  struct rpl_arena own = {0};
  int borrows = launch->hooks && launch->hooks->arena;
  struct run run = {.launch = launch, .machine = machine, .arena = borrows ? launch->hooks->arena : &own};
  if (!launch->hooks) run.next = first, run.last = last;
  run.waves_per_group = (launch->block[0] * launch->block[1] * launch->block[2] + launch->wave_size - 1) / launch->wave_size;
  int failed = 1;
  if (prepare(run.arena, launch, run.waves_per_group)) {
    machine->fault.kind = RPL_FAULT_HOST_MEMORY;
  } else {
    failed = run_groups(&run);
  }
  if (borrows) trim(run.arena, launch);
  else clear(&own);
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
