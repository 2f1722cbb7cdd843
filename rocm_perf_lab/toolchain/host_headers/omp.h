// OpenMP's functions for one thread: the wheels have no OpenMP runtime, and pragmas without -fopenmp have no effect.
#pragma once
#include <time.h>

typedef struct { int locked; } omp_lock_t;

static inline int omp_get_num_threads(void) { return 1; }
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_procs(void) { return 1; }
static inline int omp_in_parallel(void) { return 0; }
static inline void omp_set_num_threads(int count) { (void)count; }
static inline void omp_set_dynamic(int dynamic) { (void)dynamic; }
static inline void omp_init_lock(omp_lock_t *lock) { lock->locked = 0; }
static inline void omp_destroy_lock(omp_lock_t *lock) { (void)lock; }
static inline void omp_set_lock(omp_lock_t *lock) { lock->locked = 1; }
static inline void omp_unset_lock(omp_lock_t *lock) { lock->locked = 0; }
static inline double omp_get_wtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static inline double omp_get_wtick(void) { return 1e-9; }
