// Queues in user memory: a thread per queue reads its packets and executes them in order.
//
// A thread without work spins for a moment, then sleeps for growing times, at last without a limit. A doorbell that is rung through
// the runtime's functions wakes it at once. Other doorbells are seen by looking at the write indexes, which the monitor does for all.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/kfd_ioctl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "allocations.h"
#include "aql.h"
#include "areas.h"
#include "execution.h"
#include "findings.h"
#include "hip_calls.h"
#include "order.h"
#include "workers.h"

enum {
  TIMER_SLACK_NS = 1, SPINS = 64, YIELDS = 32, SHORT_SLEEPS = 200, SHORT_SLEEP_NS = 20000, LONG_SLEEPS = 300, LONG_SLEEP_NS = 200000,
  LONGEST_SLEEPS = 1000, LONGEST_SLEEP_NS = 1000000,
};

struct drv_queue {
  struct drv_queue *next;
  struct kfd_ioctl_create_queue_args args;
  pthread_t thread;
  atomic_int stop, is_paused;
  atomic_int sleeping;            // a futex: 1 while the thread sleeps
  uint32_t idle;                  // looks in a row without a packet
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct drv_queue *queues;
static atomic_int sleepers;       // threads that sleep, so that a doorbell without any costs nothing
static atomic_int working;         // threads that execute packets
static atomic_int changes, waiters;  // a futex that counts changes of signals while packets wait for signals

void drv_queues_forget(void) {
  pthread_mutex_init(&lock, NULL);
  queues = NULL;                  // their memory was the parent's threads'; rings are not the child's
  atomic_store(&sleepers, 0);
  atomic_store(&waiters, 0);
  atomic_store(&working, 0);
  drv_pool_forget();
  drv_watch_forget();
  drv_kernels_forget();
  drv_service_forget();
  drv_elf_forget();
  drv_timing_forget();
  drv_findings_forget();
  drv_order_forget();
  drv_allocations_clear();
  drv_hip_handles_forget();
  drv_areas_forget();
}

// ---- waiting ----

static int has_work(const struct drv_queue *q) {
  uint64_t read = __atomic_load_n((const uint64_t *)q->args.read_pointer_address, __ATOMIC_RELAXED);
  return read < __atomic_load_n((const uint64_t *)q->args.write_pointer_address, __ATOMIC_ACQUIRE);
}

// Sleeps until the queue is woken, at most for `ns` if that is not 0.
static void sleep_on(struct drv_queue *q, int64_t ns) {
  struct timespec timeout = {.tv_nsec = ns};
  atomic_store(&q->sleeping, 1);
  atomic_fetch_add(&sleepers, 1);
  if (!atomic_load(&q->stop) && (ns || !has_work(q)))
    syscall(SYS_futex, &q->sleeping, FUTEX_WAIT_PRIVATE, 1, ns ? &timeout : NULL, NULL, 0);
  atomic_fetch_sub(&sleepers, 1);
  atomic_store(&q->sleeping, 0);
}

// Waits a moment if `idle` is low enough for that. Returns whether it did.
static int spin(uint32_t idle) {
  if (idle < SPINS) __builtin_ia32_pause();
  else if (idle < SPINS + YIELDS) drv_yield();
  return idle < SPINS + YIELDS;
}

static void rest(struct drv_queue *q) {
  uint32_t idle = q->idle++;
  if (spin(idle)) return;
  if (idle < SHORT_SLEEPS) sleep_on(q, SHORT_SLEEP_NS);
  else if (idle < LONG_SLEEPS || has_work(q) /* that cannot begin */) sleep_on(q, LONG_SLEEP_NS);
  else sleep_on(q, 0);
}

void drv_rest(uint32_t *idle) {
  uint32_t n = (*idle)++;
  if (spin(n)) return;
  int seen = atomic_load(&changes);
  struct timespec timeout = {.tv_nsec = n < SHORT_SLEEPS ? SHORT_SLEEP_NS : n < LONGEST_SLEEPS ? LONG_SLEEP_NS : LONGEST_SLEEP_NS};
  atomic_fetch_add(&waiters, 1);
  syscall(SYS_futex, &changes, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
  atomic_fetch_sub(&waiters, 1);
}

int drv_queues_work(void) { return atomic_load_explicit(&working, memory_order_relaxed) != 0; }

static void wake_waiters(void) {
  if (!atomic_load(&waiters)) return;
  atomic_fetch_add(&changes, 1);
  syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void wake(struct drv_queue *q) {
  if (atomic_exchange(&q->sleeping, 0)) syscall(SYS_futex, &q->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void drv_queues_wake(void) {
  wake_waiters();
  if (!atomic_load(&sleepers)) return;
  pthread_mutex_lock(&lock);
  for (struct drv_queue *q = queues; q; q = q->next)
    if (atomic_load(&q->sleeping) && has_work(q)) wake(q);
  pthread_mutex_unlock(&lock);
}

void drv_signal_complete(struct rpl_signal *signal, uint64_t start_ns, uint64_t end_ns) {
  if (!signal) return;
  signal->start_ticks = start_ns / RPL_TICK_NS;
  signal->end_ticks = end_ns / RPL_TICK_NS;
  uint64_t mailbox = signal->event_mailbox;  // the host may reuse the signal as soon as its value has changed
  uint32_t event = signal->event_id;
  __atomic_sub_fetch(&signal->value, 1, __ATOMIC_SEQ_CST);
  wake_waiters();
  if (mailbox && event) drv_event_set(event);
}

// ---- threads ----

static void run_aql(struct drv_queue *q) {
  struct drv_aql aql = {.ring = (uint8_t *)q->args.ring_base_address, .gpu_id = q->args.gpu_id, .queue_id = q->args.queue_id,
                        .stop = &q->stop, .view.gpu = (uint32_t)drv_gpu_index(q->args.gpu_id),
                        .save_area = q->args.ctx_save_restore_address, .read_index = (uint64_t *)q->args.read_pointer_address,
                        .read = *(const volatile uint64_t *)q->args.read_pointer_address};
  int was_idle = 1;
  while (!atomic_load_explicit(&q->stop, memory_order_relaxed)) {
    aql.ring = (uint8_t *)q->args.ring_base_address;  // UPDATE_QUEUE may move it
    aql.packets = q->args.ring_size / RPL_PACKET_BYTES;
    int ready = !atomic_load_explicit(&q->is_paused, memory_order_relaxed) && !aql.has_failed &&
                aql.read < __atomic_load_n((const uint64_t *)q->args.write_pointer_address, __ATOMIC_ACQUIRE) && drv_aql_ready(&aql);
    if (!ready) {
      was_idle = 1;
      rest(q);
      continue;
    }
    uint64_t seen = drv_nanoseconds();
    if (was_idle && seen > aql.now_ns) aql.now_ns = seen;
    was_idle = 0;
    q->idle = 0;
    atomic_fetch_add(&working, 1);
    drv_aql_execute(&aql);
    atomic_fetch_sub(&working, 1);
  }
  drv_view_drop(&aql.view);
}

static void run_sdma(struct drv_queue *q) {
  struct drv_sdma sdma = {.ring = (uint8_t *)q->args.ring_base_address, .ring_bytes = q->args.ring_size, .gpu_id = q->args.gpu_id,
                          .queue_id = q->args.queue_id, .stop = &q->stop, .view.gpu = (uint32_t)drv_gpu_index(q->args.gpu_id)};
  volatile uint64_t *read_index = (volatile uint64_t *)q->args.read_pointer_address;
  uint64_t read = *read_index;
  int was_idle = 1, failed = 0;
  while (!atomic_load_explicit(&q->stop, memory_order_relaxed)) {
    uint64_t write = __atomic_load_n((const uint64_t *)q->args.write_pointer_address, __ATOMIC_ACQUIRE);
    if (read >= write || failed || atomic_load_explicit(&q->is_paused, memory_order_relaxed)) {
      was_idle = 1;
      rest(q);
      continue;
    }
    uint64_t seen = drv_nanoseconds();
    if (was_idle && seen > sdma.now_ns) sdma.now_ns = seen;
    was_idle = 0;
    q->idle = 0;
    atomic_fetch_add(&working, 1);
    uint64_t bytes = drv_sdma_execute(&sdma, read, write - read);
    atomic_fetch_sub(&working, 1);
    failed = !bytes;
    read += bytes;
    __atomic_store_n(read_index, read, __ATOMIC_RELEASE);
  }
  drv_view_drop(&sdma.view);
}

static void *run_queue(void *argument) {
  struct drv_queue *q = argument;
  prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
  if (q->args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL) run_aql(q);
  else run_sdma(q);
  drv_worker_free();
  return NULL;
}

// ---- calls of the runtime ----

int drv_queue_create(struct kfd_ioctl_create_queue_args *args, uint64_t *doorbell) {
  (void)doorbell;                 // the write index says the same
  struct drv_queue *q = calloc(1, sizeof *q);
  if (!q) return ENOMEM;
  q->args = *args;
  atomic_store(&q->is_paused, !args->queue_percentage);
  int failed = drv_joinable_thread_create(&q->thread, run_queue, q);
  if (failed) {
    free(q);
    return failed;
  }
  pthread_mutex_lock(&lock);
  q->next = queues;
  queues = q;
  pthread_mutex_unlock(&lock);
  drv_watch_queues();
  return 0;
}

static struct drv_queue **find(uint32_t queue_id) {
  struct drv_queue **at = &queues;
  while (*at && (*at)->args.queue_id != queue_id) at = &(*at)->next;
  return at;
}

int drv_queue_destroy(uint32_t queue_id) {
  pthread_mutex_lock(&lock);
  struct drv_queue **at = find(queue_id), *q = *at;
  if (q) *at = q->next;
  pthread_mutex_unlock(&lock);
  if (!q) return EINVAL;
  atomic_store(&q->stop, 1);
  wake(q);
  wake_waiters();
  pthread_join(q->thread, NULL);
  free(q);
  return 0;
}

int drv_queue_update(uint32_t queue_id, uint64_t ring, uint64_t ring_bytes, uint32_t percentage) {
  pthread_mutex_lock(&lock);
  struct drv_queue *q = *find(queue_id);
  if (q) {
    atomic_store(&q->is_paused, 1);
    if (ring && ring_bytes) {
      q->args.ring_base_address = ring;
      q->args.ring_size = (uint32_t)ring_bytes;
    }
    atomic_store(&q->is_paused, !percentage);
    wake(q);
  }
  pthread_mutex_unlock(&lock);
  return q ? 0 : EINVAL;
}
