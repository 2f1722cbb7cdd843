// Checks of dispatches: what the service knows about a kernel, the shadow of its launch, and findings in the words of findings.h.
#include "device_checks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "areas.h"
#include "findings.h"
#include "service.h"
#include "touched.h"

enum { MOST_LDS_BYTES = 1 << 18 /* no buffer is at so low an address */, CAPACITY = 256, BUCKETS = 256, MOST_JUDGED = 8, TEXT_BYTES = 256 };

// Of one kernel; never freed.
struct facts {
  const struct drv_kernel *kernel;
  struct facts *next;
  uint8_t *traits;             // [instructions]
  uint32_t instructions, unseen_releases;
  _Atomic uint32_t judged;     // dispatches whose uninitialised reads had no effect
};

static struct facts *buckets[BUCKETS];
static pthread_mutex_t facts_lock = PTHREAD_MUTEX_INITIALIZER;

// ---- facts about kernels ----

static struct facts *ask(const struct drv_kernel *kernel) {
  struct facts *f = calloc(1, sizeof *f);
  struct iovec part = {(void *)&kernel->id, sizeof kernel->id};
  struct rpl_check_facts head = {0};
  void *answer = NULL;
  uint64_t bytes = 0;
  uint32_t kind = drv_service_ask(RPL_CHECK_FACTS, &part, 1, &answer, &bytes);
  if (f && kind == RPL_CHECK_FACTS_ARE && bytes >= sizeof head) {
    memcpy(&head, answer, sizeof head);
    if (bytes >= sizeof head + head.instructions) f->traits = malloc(head.instructions + 1ull);
  }
  if (f && f->traits) {
    memcpy(f->traits, (const char *)answer + sizeof head, head.instructions);
    f->instructions = head.instructions;
    f->unseen_releases = head.unseen_releases;
  }
  if (f) f->kernel = kernel;
  free(answer);
  return f;
}

// NULL or without traits: the kernel cannot be checked.
static struct facts *facts_of(const struct drv_kernel *kernel) {
  pthread_mutex_lock(&facts_lock);
  struct facts **bucket = &buckets[kernel->id % BUCKETS], *f = *bucket;
  while (f && f->kernel != kernel) f = f->next;
  if (!f) {
    f = ask(kernel);
    if (f) {
      f->next = *bucket;
      *bucket = f;
    }
  }
  pthread_mutex_unlock(&facts_lock);
  return f;
}

// ---- findings ----

static const char *kind_of(uint32_t kind, enum drv_check *check) {
  switch (kind) {
    case RPL_CHECK_LDS_RACE: *check = RPL_ON_RACES; return "lds_race";
    case RPL_CHECK_MEMORY_RACE: *check = RPL_ON_RACES; return "memory_race";
    case RPL_CHECK_LDS_UNINITIALISED: *check = RPL_ON_UNINITIALISED; return "lds_uninitialised";
    case RPL_CHECK_MEMORY_UNINITIALISED: *check = RPL_ON_UNINITIALISED; return "memory_uninitialised";
    case RPL_CHECK_BARRIER: *check = RPL_ON_BARRIERS; return "divergent_barrier";
    case RPL_CHECK_ALIGNMENT: *check = RPL_ON_MISALIGNED; return "misaligned";
    case RPL_OUTSIDE: *check = RPL_ON_BOUNDS; return "out_of_bounds";
    case RPL_AFTER_FREE: *check = RPL_ON_BOUNDS; return "use_after_free";
    case RPL_LDS_OUTSIDE: *check = RPL_ON_BOUNDS; return "lds_out_of_bounds";
    case RPL_SCRATCH_OUTSIDE: *check = RPL_ON_BOUNDS; return "scratch_out_of_bounds";
    case RPL_MEMORY_FAULT: *check = RPL_ON_BOUNDS; return "memory_fault";
    default: return "";  // a remark
  }
}

static int is_runtime_kernel(const struct drv_kernel *kernel) { return strncmp(kernel->name, "__amd_rocclr_", strlen("__amd_rocclr_")) == 0; }

// `key` tells findings of one kernel apart.
static void report(const struct drv_checked *c, const struct rpl_finding *finding) {
  const struct drv_checked_dispatch *of = c->of;
  char text[TEXT_BYTES] = "";
  enum drv_check check = RPL_ON_BOUNDS;
  const char *kind = kind_of(finding->kind, &check);
  if (!*kind || is_runtime_kernel(of->kernel)) return;
  struct drv_finding f = {.check = check, .kind = kind, .message = text, .kernel = of->kernel, .sites = {of->site}, .key = (uint64_t)(uint32_t)finding->inst << 32};
  f.key |= finding->kind == RPL_CHECK_BARRIER ? (uint32_t)finding->detail : (uint32_t)finding->other_inst;
  int is_lds = finding->kind == RPL_CHECK_LDS_RACE || finding->kind == RPL_CHECK_LDS_UNINITIALISED || finding->kind == RPL_LDS_OUTSIDE ||
               finding->kind == RPL_SCRATCH_OUTSIDE || (finding->kind == RPL_CHECK_ALIGNMENT && finding->address < MOST_LDS_BYTES);
  if (!is_lds && finding->kind != RPL_CHECK_BARRIER) drv_shadow_describe(c, finding->address, finding->width_bytes, text, sizeof text, f.sites);
  struct rpl_device_detail detail = {.finding = *finding, .dispatch = of->watched->number, .queue = of->watched->queue_id,
                                     .waves_per_group = c->checks.waves_per_group};
  memcpy(detail.grid, of->grid, sizeof detail.grid);
  memcpy(detail.block, of->block, sizeof detail.block);
  f.detail = &detail;
  f.detail_bytes = sizeof detail;
  drv_find(&f);
}

static struct rpl_finding finding_of(const struct rpl_wave *w, uint32_t kind, int inst, int access, uint64_t lanes, uint64_t address,
                                     uint32_t width) {
  struct rpl_finding f = {.kind = kind, .access = (uint32_t)access, .width_bytes = width, .inst = inst, .other_inst = -1, .lanes = lanes,
                          .address = address, .wave = w->wave_in_workgroup};
  memcpy(f.workgroup, w->workgroup, sizeof f.workgroup);
  return f;
}

static void bad(struct rpl_shadow *s, const struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint64_t *address, uint32_t width) {
  struct drv_checked *c = (struct drv_checked *)s;
  if (c->is_rerun || c->outside[inst]) return;
  uint64_t first = address[__builtin_ctzll(lanes)];
  struct drv_area_answer found = drv_area_find(first);
  if (!found.live && !found.near && !drv_shadow_is_between(c, first)) return;  // a wide load of the end of a constant
  c->outside[inst] = 1;
  const struct drv_area *near = found.near;
  struct rpl_finding f = finding_of(w, near && near->is_freed ? RPL_AFTER_FREE : RPL_OUTSIDE, inst, access, lanes, first, width);
  report(c, &f);
}

static void bad_lds(struct rpl_shadow *s, const struct rpl_wave *w, int inst, int access, uint64_t lanes, const uint32_t *address,
                    uint32_t width) {
  struct drv_checked *c = (struct drv_checked *)s;
  if (c->is_rerun || c->outside[inst]) return;
  c->outside[inst] = 1;
  struct rpl_finding f = finding_of(w, RPL_LDS_OUTSIDE, inst, access, lanes, address[__builtin_ctzll(lanes)], width);
  f.detail = w->lds_bytes;
  report(c, &f);
}

// ---- a dispatch ----

int drv_checks_are_on(void) { return drv_check_is_on(RPL_ON_DEVICE); }

static struct drv_checked *create(void) {
  struct drv_checked *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->checks.findings = calloc(CAPACITY, sizeof *c->checks.findings);
  c->checks.finding_capacity = CAPACITY;
  c->checks.shadow = &c->shadow;
  c->shadow.bad = bad;
  if (drv_shadow_create(c) && c->checks.findings) return c;
  drv_checked_free(c);
  return NULL;
}

static uint64_t enabled_checks(void) {
  static const struct { uint32_t check; uint64_t bits; } kinds[] = {
      {RPL_ON_RACES, 1 << RPL_CHECK_LDS_RACE | 1 << RPL_CHECK_MEMORY_RACE},
      {RPL_ON_UNINITIALISED, 1 << RPL_CHECK_LDS_UNINITIALISED | 1 << RPL_CHECK_MEMORY_UNINITIALISED},
      {RPL_ON_BARRIERS, 1 << RPL_CHECK_BARRIER},
      {RPL_ON_MISALIGNED, 1 << RPL_CHECK_ALIGNMENT},
  };
  uint64_t bits = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (drv_check_is_on(kinds[k].check)) bits |= kinds[k].bits;
  return bits;
}

static void *renewed(void *old, uint64_t count, uint64_t size) {
  free(old);
  return calloc(count + 1, size);
}

// The barrier of a cooperative launch, through which workgroups meet.
static uint64_t meeting_of(const struct drv_checked_dispatch *of, const struct rpl_launch *launch) {
  uint64_t meeting = 0;
  if (launch->starts_together && of->kernel->cooperative != RPL_GLOBAL_WAVE_SYNC)
    memcpy(&meeting, (const void *)(of->kernarg + of->kernel->cooperative - 1), sizeof meeting);
  return meeting;
}

int drv_checks_begin(struct drv_checked **checked, const struct drv_checked_dispatch *of, struct rpl_launch *launch) {
  struct facts *facts = facts_of(of->kernel);
  if (!facts || !facts->traits || (!*checked && !(*checked = create()))) return 0;
  struct drv_checked *c = *checked;
  c->of = of;
  c->workgroups = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  struct rpl_checks *checks = &c->checks;
  checks->enabled = enabled_checks();
  checks->traits = facts->traits;
  checks->reported = renewed(checks->reported, facts->instructions, 1);
  checks->released = renewed(checks->released, c->workgroups, sizeof *checks->released);
  c->outside = renewed(c->outside, facts->instructions, 1);
  checks->waves_per_group = (launch->block[0] * launch->block[1] * launch->block[2] + launch->wave_size - 1) / launch->wave_size;
  checks->unseen_releases = facts->unseen_releases;
  checks->meeting = meeting_of(of, launch);
  checks->finding_count = checks->clock = 0;
  checks->touched = of->touched;
  checks->note = drv_touched_note;
  c->shadow.bad_lds = drv_check_is_on(RPL_ON_BOUNDS) ? bad_lds : NULL;
  if (!drv_memory_block(of->kernel->object, &c->image)) c->image = (struct drv_block_place){0};
  memset(c->variables, 0, sizeof c->variables);
  drv_shadow_start(c);
  if (!checks->reported || !checks->released || !c->outside) return 0;
  launch->checks = checks;
  return 1;
}

static int is_uninitialised(const struct rpl_finding *f) {
  return f->kind == RPL_CHECK_LDS_UNINITIALISED || f->kind == RPL_CHECK_MEMORY_UNINITIALISED;
}

static int races(const struct rpl_checks *checks, int32_t inst) {
  for (uint64_t k = 0; k < checks->finding_count; k++) {
    const struct rpl_finding *f = &checks->findings[k];
    int is_race = f->kind == RPL_CHECK_LDS_RACE || f->kind == RPL_CHECK_MEMORY_RACE;
    if (is_race && (f->inst == inst || f->other_inst == inst)) return 1;
  }
  return 0;
}

// Whether a finding is one for the user; `depends`: on uninitialised memory.
static int is_defect(const struct drv_checked *c, const struct rpl_finding *f, int depends) {
  if (is_uninitialised(f)) return depends && !races(&c->checks, f->inst);  // else a read that races with the write of its data
  // Compilers load constants such as strings in words at any address.
  return f->kind != RPL_CHECK_ALIGNMENT || drv_area_find(f->address).live;
}

static int reads_uninitialised(const struct rpl_checks *checks) {
  for (uint64_t k = 0; k < checks->finding_count; k++)
    if (is_uninitialised(&checks->findings[k])) return 1;
  return 0;
}

static void report_fault(const struct drv_checked *c, const struct rpl_fault *fault) {
  uint32_t kind;
  switch (fault->kind) {
    case RPL_FAULT_MEMORY: kind = RPL_MEMORY_FAULT; break;
    case RPL_FAULT_MISALIGNED: kind = RPL_CHECK_ALIGNMENT; break;
    case RPL_FAULT_SCRATCH: kind = RPL_SCRATCH_OUTSIDE; break;
    default: return;
  }
  if (fault->inst < 0 || !fault->lanes) return;
  struct rpl_finding f = {.kind = kind, .detail = fault->detail, .access = fault->access,
                          .width_bytes = fault->width_bytes, .inst = fault->inst, .other_inst = -1, .lanes = fault->lanes,
                          .address = fault->addresses[__builtin_ctzll(fault->lanes)], .wave = fault->wave};
  memcpy(f.workgroup, fault->workgroup, sizeof f.workgroup);
  struct drv_area_answer found = drv_area_find(f.address);
  if (found.near && kind == RPL_MEMORY_FAULT) f.kind = found.near->is_freed ? RPL_AFTER_FREE : RPL_OUTSIDE;
  report(c, &f);
}

void drv_checks_end(struct drv_checked *c, struct rpl_launch *launch, struct rpl_machine *machine, uint64_t instructions) {
  struct facts *facts = facts_of(c->of->kernel);
  uint64_t count = c->checks.finding_count;
  int depends = 0;
  if (machine->fault.kind) report_fault(c, &machine->fault);
  else if (reads_uninitialised(&c->checks) && facts && facts->judged < MOST_JUDGED) {
    depends = drv_depends_on_uninitialised(c, launch, machine, instructions);
    facts->judged += !depends;
  }
  c->checks.finding_count = count;
  for (uint64_t k = 0; k < count; k++)
    if (is_defect(c, &c->checks.findings[k], depends)) report(c, &c->checks.findings[k]);
  launch->checks = NULL;
}

void drv_checked_free(struct drv_checked *c) {
  if (!c) return;
  drv_shadow_free(c);
  free(c->checks.findings);
  free(c->checks.reported);
  free(c->checks.released);
  free(c->outside);
  free(c);
}
