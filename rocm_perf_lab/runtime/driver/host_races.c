// Guards are ranges of pages with the number of the operation that they belong to.
#define _GNU_SOURCE
#include "host_races.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "allocations.h"
#include "findings.h"
#include "hip_calls.h"
#include "touched.h"

enum { MOST_GUARDS = 1024, MOST_PAGES = 1 << 16, MOST_FRAMES = 32, MOST_RETRIES = 4, TEXT_BYTES = 1024, WRITE_FAULT = 2 };

struct guard { uint64_t begin, end; uint32_t stream, number; int writes; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guard guards[MOST_GUARDS];
static uint64_t guard_count, page_count;
static struct sigaction before;
static int is_installed;
static __thread int is_own;
static __thread struct { uint64_t address, instruction; int count; } last_trap;

void drv_host_races_own_thread(void) { is_own = 1; }

int drv_host_races_are_on(void) { return drv_check_is_on(RPL_ON_RACES) && drv_allocations_shared(); }

static uint64_t page_of(uint64_t address) { return address & ~(uint64_t)(RPL_PAGE_BYTES - 1); }

// ---- who accesses ----

static int begins_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

enum owner { APPLICATION, SYSTEM, RUNTIME };
static enum owner owner_of(const void *code) {
  static const char *const systems[] = {"libc.so", "libc-", "libm.", "libm-", "libstdc++", "libc++", "libgcc_s", "libpthread", "ld-linux"};
  static const char *const runtimes[] = {"libamdhip64", "libhsa-runtime64", "libhsakmt", "libhiprtc", "libamd_comgr"};
  Dl_info info, self;
  if (!dladdr(code, &info) || !info.dli_fname) return APPLICATION;  // code made at run time
  if (dladdr((const void *)owner_of, &self) && info.dli_fbase == self.dli_fbase) return RUNTIME;
  const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
  for (size_t k = 0; k < sizeof systems / sizeof *systems; k++)
    if (begins_with(name, systems[k])) return SYSTEM;
  for (size_t k = 0; k < sizeof runtimes / sizeof *runtimes; k++)
    if (begins_with(name, runtimes[k])) return RUNTIME;
  return APPLICATION;
}

// The place in the application that accesses memory, as a return address; 0: the runtime does.
static uint64_t site_of(uint64_t instruction) {
  enum owner owner = owner_of((const void *)instruction);
  if (owner == APPLICATION) return instruction + 1;
  if (owner == RUNTIME) return 0;
  void *frames[MOST_FRAMES];
  int count = backtrace(frames, MOST_FRAMES), k = 0;
  while (k < count && (uint64_t)frames[k] != instruction) k++;
  for (; k < count; k++) {
    owner = owner_of(frames[k]);
    if (owner != SYSTEM) return owner == APPLICATION ? (uint64_t)frames[k] : 0;
  }
  return 0;
}

// ---- traps ----

static void pass_on(int number, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    signal(number, SIG_DFL);      // the instruction runs again
  }
}

// Another thread may have opened the page in the meantime.
static int is_repeated(uint64_t address, uint64_t instruction) {
  if (last_trap.address != address || last_trap.instruction != instruction) last_trap.count = 0;
  last_trap.address = address;
  last_trap.instruction = instruction;
  return ++last_trap.count > MOST_RETRIES;
}

static int is_guarded(uint64_t page) {
  for (uint64_t k = 0; k < guard_count; k++)
    if (page >= guards[k].begin && page < guards[k].end) return 1;
  return 0;
}

static void trapped(int number, siginfo_t *info, void *context) {
  const ucontext_t *state = context;
  uint64_t address = (uint64_t)info->si_addr, instruction = (uint64_t)state->uc_mcontext.gregs[REG_RIP], page = page_of(address);
  int writes = (state->uc_mcontext.gregs[REG_ERR] & WRITE_FAULT) != 0;
  pthread_mutex_lock(&lock);
  int ours = info->si_code == SEGV_ACCERR && is_guarded(page);
  if (ours) mprotect((void *)page, RPL_PAGE_BYTES, PROT_READ | PROT_WRITE);
  pthread_mutex_unlock(&lock);
  if (!ours) {
    if (info->si_code != SEGV_ACCERR || is_repeated(address, instruction)) pass_on(number, info, context);
    return;
  }
  char text[TEXT_BYTES];
  struct drv_finding f = {.check = RPL_ON_RACES, .kind = "host_race", .message = text};
  if (is_own || drv_hip_is_inside() || !drv_order_host_races(address, writes, &f, text, sizeof text)) return;
  f.sites[0] = site_of(instruction);
  if (f.sites[0]) drv_find(&f);
}

// Returns whether traps come here: an application may have its own handler.
static int install(void) {
  struct sigaction now;
  if (!is_installed) {
    void *frame;
    (void)backtrace(&frame, 1);   // loads the unwinder
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    is_installed = sigaction(SIGSEGV, &action, &before) == 0;
  }
  return is_installed && sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == trapped;
}

// ---- guards ----

static void protect(const struct guard *g) { mprotect((void *)g->begin, g->end - g->begin, g->writes ? PROT_NONE : PROT_READ); }

static void add(struct guard g) {
  uint64_t pages = (g.end - g.begin) / RPL_PAGE_BYTES;
  struct guard *last = guard_count ? &guards[guard_count - 1] : NULL;
  if (page_count + pages > MOST_PAGES || !install()) return;
  if (last && last->end == g.begin && last->stream == g.stream && last->number == g.number && last->writes == g.writes) last->end = g.end;
  else if (guard_count < MOST_GUARDS) guards[guard_count++] = g;
  else return;
  page_count += pages;
  protect(&g);
}

static int is_shared(uint64_t address, struct drv_allocation *a) {
  return drv_allocation_at(address, a) && !a->is_freed && (a->kind == RPL_HOST_MEMORY || a->kind == RPL_MANAGED_MEMORY);
}

void drv_host_races_guard_range(const struct drv_op *op, uint64_t address, uint64_t bytes, int writes) {
  struct drv_allocation a;
  if (!op || !bytes || !drv_host_races_are_on() || !is_shared(address, &a)) return;
  pthread_mutex_lock(&lock);
  add((struct guard){page_of(address), page_of(address + bytes - 1) + RPL_PAGE_BYTES, op->stream, op->number, writes});
  pthread_mutex_unlock(&lock);
}

void drv_host_races_guard_touched(const struct drv_op *op, const struct drv_touched *touched) {
  struct drv_allocation a = {0};
  if (!op || !drv_host_races_are_on()) return;
  pthread_mutex_lock(&lock);
  for (uint64_t k = 0; k < touched->capacity; k++) {
    const struct drv_touched_page *p = &touched->pages[k];
    uint64_t page = (p->number - 1) * RPL_PAGE_BYTES;
    if (!p->number || (!p->bits[RPL_TOUCH_READ] && !p->bits[RPL_TOUCH_WRITE]) || !is_shared(page, &a)) continue;
    add((struct guard){page, page + RPL_PAGE_BYTES, op->stream, op->number, p->bits[RPL_TOUCH_WRITE] != NULL});
  }
  pthread_mutex_unlock(&lock);
}

// Opens the pages of guards that are no longer needed; those of others stay.
static void open_all(int (*is_over)(const struct guard *, const void *), const void *argument) {
  pthread_mutex_lock(&lock);
  uint64_t kept = 0;
  for (uint64_t k = 0; k < guard_count; k++) {
    struct guard g = guards[k];
    if (!is_over(&g, argument)) {
      guards[kept++] = g;
      continue;
    }
    page_count -= (g.end - g.begin) / RPL_PAGE_BYTES;
    mprotect((void *)g.begin, g.end - g.begin, PROT_READ | PROT_WRITE);
  }
  int is_changed = kept != guard_count;
  guard_count = kept;
  for (uint64_t k = 0; is_changed && k < kept; k++) protect(&guards[k]);
  pthread_mutex_unlock(&lock);
}

static int is_known_to(const struct guard *g, const void *clock) { return ((const struct drv_clock *)clock)->at[g->stream] >= g->number; }

void drv_host_races_waited(const struct drv_clock *host) {
  if (guard_count) open_all(is_known_to, host);
}

struct extent { uint64_t begin, end; };
static int overlaps(const struct guard *g, const void *extent) {
  const struct extent *e = extent;
  return g->begin < e->end && e->begin < g->end;
}

void drv_host_races_open(uint64_t address, uint64_t bytes) {
  struct extent e = {address, address + bytes};
  if (guard_count) open_all(overlaps, &e);
}

void drv_host_races_forget(void) {
  pthread_mutex_init(&lock, NULL);
  for (uint64_t k = 0; k < guard_count; k++) mprotect((void *)guards[k].begin, guards[k].end - guards[k].begin, PROT_READ | PROT_WRITE);
  guard_count = page_count = 0;
}
