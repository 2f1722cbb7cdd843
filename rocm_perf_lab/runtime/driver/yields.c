// Replaces sched_yield(). HIP waits for a command by yielding until it is done: on few cores such a thread takes one from the emulated
// GPU, as yielding threads share the cores with those that work. After a few yields in a row, it rests while a queue executes packets.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "execution.h"

enum { PAUSE_NS = 20000 };        // work between two yields, after which they are not in a row

void drv_yield(void) { syscall(SYS_sched_yield); }

RPL_EXPORT int sched_yield(void) {
  static _Thread_local uint32_t idle;
  static _Thread_local uint64_t last_ns;
  if (drv_queues_work()) {
    if (drv_nanoseconds() - last_ns > PAUSE_NS) idle = 0;
    drv_rest(&idle);
    last_ns = drv_nanoseconds();
  } else {
    drv_yield();
  }
  return 0;
}
