// Threads that help the threads of queues with large dispatches and copies. There are as many as were ever wanted at once, so that no
// dispatch waits for the helpers of another one; a dispatch always runs on its queue's thread too.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "execution.h"
#include "host_races.h"

enum { STACK_BYTES = 1 << 20, TIMER_SLACK_NS = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t invited = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct drv_task *tasks;    // that want helpers
static uint32_t idle;

void drv_pool_forget(void) {
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&invited, NULL);
  pthread_cond_init(&finished, NULL);
  tasks = NULL;
  idle = 0;
}

// ---- threads ----

struct start { void *(*run)(void *); void *argument; };

static void *begin_thread(void *argument) {
  struct start start = *(struct start *)argument;
  free(argument);
  drv_host_races_own_thread();
  return start.run(start.argument);
}

// Signals are for the application's threads; an access that traps is of this thread.
static int create(pthread_t *thread, int state, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  struct start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  *start = (struct start){run, argument};
  pthread_attr_t attributes;
  int failed = pthread_attr_init(&attributes);
  if (failed) {
    free(start);
    return failed;
  }
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_attr_setdetachstate(&attributes, state);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits it
  failed = pthread_create(thread, &attributes, begin_thread, start);
  if (failed) free(start);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed;
}

int drv_thread_create(void *(*run)(void *), void *argument) {
  pthread_t thread;
  return create(&thread, PTHREAD_CREATE_DETACHED, run, argument);
}

int drv_joinable_thread_create(pthread_t *thread, void *(*run)(void *), void *argument) {
  return create(thread, PTHREAD_CREATE_JOINABLE, run, argument);
}

// ---- helpers ----

static struct drv_task *take_task(void) {
  while (tasks && !tasks->wanted) tasks = tasks->next;
  if (tasks) tasks->wanted--, tasks->running++;
  return tasks;
}

static void *help(void *unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
  pthread_mutex_lock(&lock);
  for (;;) {
    struct drv_task *task = take_task();
    if (!task) {
      idle++;
      pthread_cond_wait(&invited, &lock);
      idle--;
      continue;
    }
    pthread_mutex_unlock(&lock);
    task->work(task);
    pthread_mutex_lock(&lock);
    if (!--task->running) pthread_cond_broadcast(&finished);
  }
}

static uint32_t wanted_in_all(void) {
  uint32_t sum = 0;
  for (const struct drv_task *task = tasks; task; task = task->next) sum += task->wanted;
  return sum;
}

void drv_pool_invite(struct drv_task *task, uint32_t helpers) {
  if (!helpers) return;
  pthread_mutex_lock(&lock);
  task->wanted = helpers;
  task->next = tasks;
  tasks = task;
  uint32_t wanted = wanted_in_all();
  if (idle) pthread_cond_broadcast(&invited);
  for (uint32_t k = idle; k < wanted; k++)
    if (drv_thread_create(help, NULL)) break;
  pthread_mutex_unlock(&lock);
}

void drv_pool_finish(struct drv_task *task) {
  pthread_mutex_lock(&lock);
  for (struct drv_task **at = &tasks; *at; at = &(*at)->next) {
    if (*at != task) continue;
    *at = task->next;
    break;
  }
  task->wanted = 0;
  while (task->running) pthread_cond_wait(&finished, &lock);
  pthread_mutex_unlock(&lock);
}

// ---- copies ----

enum { LARGE_COPY = 8 << 20, COPY_PART = 1 << 20, MOST_COPY_THREADS = 4 };
struct copy {
  struct drv_task task;           // first: work() gets its address
  char *to;
  const char *from;
  uint64_t bytes;
  _Atomic uint64_t next;
};

static void copy_parts(struct drv_task *task) {
  struct copy *copy = (struct copy *)task;
  for (;;) {
    uint64_t at = atomic_fetch_add(&copy->next, COPY_PART);
    if (at >= copy->bytes) return;
    uint64_t rest = copy->bytes - at;
    memcpy(copy->to + at, copy->from + at, rest < COPY_PART ? rest : COPY_PART);
  }
}

void drv_copy(void *to, const void *from, uint64_t bytes) {
  uint64_t distance = (uint64_t)to > (uint64_t)from ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
  uint32_t threads = drv_settings()->threads;
  if (bytes < LARGE_COPY || distance < bytes || threads < 2) {
    memmove(to, from, bytes);
    return;
  }
  struct copy copy = {.task.work = copy_parts, .to = to, .from = from, .bytes = bytes};
  drv_pool_invite(&copy.task, (threads < MOST_COPY_THREADS ? threads : MOST_COPY_THREADS) - 1);
  copy_parts(&copy.task);
  drv_pool_finish(&copy.task);
}
