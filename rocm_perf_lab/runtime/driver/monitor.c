// One thread that watches running dispatches: signals that kernels send to the host by a store, limits of time, queues that are
// destroyed, and a line now and then about a dispatch that runs for long. Between dispatches it looks, less often, whether a queue
// whose thread sleeps has a new packet.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "execution.h"

enum { PERIOD_NS = 100000, QUEUE_PERIOD_NS = 1000000, IDLE_PERIODS = 100, QUIET_PERIODS = 5000, TIMER_SLACK_NS = 1, NS_PER_S = 1000000000, LINE_BYTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct drv_watched *watched;
static int has_thread;
static atomic_int sleeping;       // a futex: 1 while the thread waits for a dispatch
static uint32_t idle_periods;     // of the thread, since a dispatch ran
static atomic_uint quiet_periods; // since a dispatch began or sent a signal: a long one that sends none is seldom looked at

void drv_watch_forget(void) {
  pthread_mutex_init(&lock, NULL);
  watched = NULL;
  has_thread = 0;
  atomic_store(&sleeping, 0);
}

static void say_heartbeat(struct drv_watched *w, uint64_t now) {
  uint64_t period = (uint64_t)drv_settings()->heartbeat_seconds * NS_PER_S, since = w->said_ns ? w->said_ns : w->started_ns;
  if (!period || now - since < period) return;
  w->said_ns = now;
  uint64_t begun = atomic_load(w->begun);
  char line[LINE_BYTES];
  int length = snprintf(line, sizeof line, "kernel %.300s (dispatch %llu of queue %u) has run for %llu s: %llu of %llu "
                        "workgroups begun, %lld instructions",
                        w->kernel, (unsigned long long)w->number, w->queue_id, (unsigned long long)((now - w->started_ns) / NS_PER_S),
                        (unsigned long long)(begun < w->workgroups ? begun : w->workgroups), (unsigned long long)w->workgroups,
                        (long long)(w->first_budget - __atomic_load_n(w->budget, __ATOMIC_RELAXED)));
  if (length > 0) drv_say(line);
}

static void stop(struct drv_watched *w, int reason) {
  int running = 0;
  __atomic_compare_exchange_n(&w->stop, &running, reason, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void look_at(struct drv_watched *w, uint64_t now) {
  uint64_t limit = (uint64_t)drv_settings()->max_seconds * NS_PER_S;
  if (atomic_load_explicit(w->queue_stop, memory_order_relaxed)) stop(w, RPL_STOP_QUEUE);
  else if (limit && now - w->started_ns > limit) stop(w, RPL_STOP_LIMIT);
  say_heartbeat(w, now);
}

static void look_at_all(void) {
  pthread_mutex_lock(&lock);
  uint64_t now = drv_nanoseconds();  // after the start of every watched dispatch
  for (struct drv_watched *w = watched; w; w = w->next) look_at(w, now);
  if (watched) idle_periods = 0;
  pthread_mutex_unlock(&lock);
}

static void *monitor(void *unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
  for (;;) {
    int is_idle = idle_periods++ > IDLE_PERIODS;
    int is_quiet = is_idle || atomic_fetch_add_explicit(&quiet_periods, 1, memory_order_relaxed) > QUIET_PERIODS;
    struct timespec period = {.tv_nsec = is_quiet ? QUEUE_PERIOD_NS : PERIOD_NS};
    if (is_idle) atomic_store(&sleeping, 1);
    syscall(SYS_futex, &sleeping, FUTEX_WAIT_PRIVATE, is_idle, &period, NULL, 0);
    atomic_store(&sleeping, 0);
    drv_queues_wake();
    if (!is_idle && drv_events_scan()) atomic_store(&quiet_periods, 0);
    look_at_all();
  }
}

static void start_monitor(void) {
  if (!has_thread) has_thread = drv_thread_create(monitor, NULL) == 0;
}

void drv_watch_queues(void) {
  pthread_mutex_lock(&lock);
  start_monitor();
  pthread_mutex_unlock(&lock);
}

void drv_watch_begin(struct drv_watched *w) {
  w->stop = 0;
  w->said_ns = 0;
  atomic_store_explicit(&quiet_periods, 0, memory_order_relaxed);
  pthread_mutex_lock(&lock);
  w->next = watched;
  w->link = &watched;
  if (watched) watched->link = &w->next;
  watched = w;
  start_monitor();
  pthread_mutex_unlock(&lock);
  if (atomic_load(&sleeping) && atomic_exchange(&sleeping, 0))
    syscall(SYS_futex, &sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void drv_watch_end(struct drv_watched *w) {
  pthread_mutex_lock(&lock);
  *w->link = w->next;
  if (w->next) w->next->link = w->link;
  pthread_mutex_unlock(&lock);
}
