// Marks and ranges of rocTX, for programs that annotate their work: they are counted, so that levels are right, and not recorded.
#include <stdatomic.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

static _Thread_local int level;
static atomic_uint_least64_t started;

EXPORTED void roctxMarkA(const char *message);
EXPORTED int roctxRangePushA(const char *message);
EXPORTED int roctxRangePop(void);
EXPORTED uint64_t roctxRangeStartA(const char *message);
EXPORTED void roctxRangeStop(uint64_t id);
EXPORTED int roctxProfilerPause(uint64_t thread);
EXPORTED int roctxProfilerResume(uint64_t thread);

void roctxMarkA(const char *message) { (void)message; }
int roctxRangePushA(const char *message) {
  (void)message;
  return level++;
}
int roctxRangePop(void) { return level ? --level : -1; }
uint64_t roctxRangeStartA(const char *message) {
  (void)message;
  return atomic_fetch_add(&started, 1) + 1;
}
void roctxRangeStop(uint64_t id) { (void)id; }
int roctxProfilerPause(uint64_t thread) {
  (void)thread;
  return 0;
}
int roctxProfilerResume(uint64_t thread) {
  (void)thread;
  return 0;
}
