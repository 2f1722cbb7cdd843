// Reports the blocks that run often to the service, which then optimises them, and switches to the better code, also in the middle of
// a launch: both codes stop and resume at the same points with all registers in memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "execution.h"
#include "kernels.h"
#include "service.h"

enum { HOT_EXECUTIONS = 50000, POLL_NS = 100000000, GROWTH_PERCENT = 150 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct drv_running *running;
static struct entry *entries;     // those that are not final
static int has_thread, sleeps;

void drv_hot_forget(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&wake, NULL);
  running = NULL;
  has_thread = sleeps = 0;
}

void drv_hot_add(struct entry *entry) {
  if (entry->refusal || entry->is_final) return;
  pthread_mutex_lock(&lock);
  entry->next_hot = entries;
  entries = entry;
  pthread_mutex_unlock(&lock);
}

// ---- reports ----

// Copies the counts of a kernel so far. Returns the highest.
static uint64_t counts_of(const struct entry *e, uint64_t *counts) {
  uint64_t highest = 0;
  memcpy(counts, e->totals, e->kernel.block_count * sizeof *counts);
  for (const struct drv_running *r = running; r; r = r->next)
    if (r->kernel == &e->kernel)
      for (uint32_t k = 0; k < e->kernel.block_count; k++) counts[k] += __atomic_load_n(&r->executions[k], __ATOMIC_RELAXED);
  for (uint32_t k = 0; k < e->kernel.block_count; k++) highest = counts[k] > highest ? counts[k] : highest;
  return highest;
}

static void replace_code(struct entry *e, const char *path) {
  rpl_kernel code = drv_kernel_load(path);
  drv_log(1, "kernel %s: better code %s", e->kernel.name, path);
  if (!code) return;
  atomic_store(&e->kernel.code, code);
  pthread_mutex_lock(&lock);
  for (const struct drv_running *r = running; r; r = r->next)
    if (r->kernel == &e->kernel) __atomic_store_n(&r->launch->kernel, code, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
}

static void report(struct entry *e, const uint64_t *counts) {
  struct rpl_hot_blocks head = {e->kernel.id, e->kernel.block_count};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)counts, e->kernel.block_count * sizeof *counts}};
  void *answer;
  uint64_t bytes;
  uint32_t kind = drv_service_ask(RPL_HOT, parts, 2, &answer, &bytes);
  if (kind == RPL_CODE_IS && bytes > 1) replace_code(e, answer);
  free(answer);
}

// Reports every kernel whose counts have grown.
static void look(void) {
  for (struct entry *e = entries; e; e = e->next_hot) {  // entries are added at the front and never removed
    uint64_t *counts = malloc((e->kernel.block_count + 1) * sizeof *counts);
    if (!counts) return;
    pthread_mutex_lock(&lock);
    uint64_t highest = counts_of(e, counts);
    pthread_mutex_unlock(&lock);
    if (highest >= HOT_EXECUTIONS && highest >= e->reported / 100 * GROWTH_PERCENT) {
      e->reported = highest;
      report(e, counts);
    }
    free(counts);
  }
}

static void *watch(void *unused) {
  (void)unused;
  for (;;) {
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    look();
    pthread_mutex_lock(&lock);
    while (!running) {
      sleeps = 1;
      pthread_cond_wait(&wake, &lock);
    }
    sleeps = 0;
    pthread_mutex_unlock(&lock);
  }
}

// ---- threads that run kernels ----

void drv_kernel_begin(struct drv_running *r) {
  r->launch->kernel = atomic_load(&((struct drv_kernel *)r->kernel)->code);
  if (((const struct entry *)r->kernel)->is_final) return;
  pthread_mutex_lock(&lock);
  r->next = running;
  r->link = &running;
  if (running) running->link = &r->next;
  running = r;
  r->launch->kernel = atomic_load(&((struct drv_kernel *)r->kernel)->code);  // it may have been replaced meanwhile
  if (!has_thread) has_thread = drv_thread_create(watch, NULL) == 0;
  else if (sleeps) pthread_cond_signal(&wake);
  pthread_mutex_unlock(&lock);
}

void drv_kernel_end(struct drv_running *r) {
  const struct entry *e = (const struct entry *)r->kernel;
  if (e->is_final) return;
  pthread_mutex_lock(&lock);
  *r->link = r->next;
  if (r->next) r->next->link = r->link;
  for (uint32_t k = 0; k < e->kernel.block_count; k++) e->totals[k] += r->executions[k];
  pthread_mutex_unlock(&lock);
}
