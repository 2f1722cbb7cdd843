// The file `totals` in the session directory, which all processes of the application map. runtime/totals.py reads it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"
#include "totals.h"

struct totals { _Atomic uint64_t dispatches, instructions, nanoseconds; };
static struct totals *totals;
static pthread_once_t is_mapped = PTHREAD_ONCE_INIT;

static void map_file(void) {
  const struct drv_settings *session = drv_settings();
  char path[sizeof session->session + sizeof "/totals"];
  if (!session) return;
  snprintf(path, sizeof path, "%s/totals", session->session);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  // All processes set the same size: what others have added stays.
  long failed = syscall(SYS_ftruncate, fd, (long)sizeof *totals);
  long address = failed ? -1 : syscall(SYS_mmap, NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (address != -1) totals = (struct totals *)address;
}

void drv_totals_add(uint64_t instructions, uint64_t nanoseconds) {
  pthread_once(&is_mapped, map_file);
  if (!totals) return;
  atomic_fetch_add_explicit(&totals->dispatches, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&totals->instructions, instructions, memory_order_relaxed);
  atomic_fetch_add_explicit(&totals->nanoseconds, nanoseconds, memory_order_relaxed);
}
