// Errors of HIP calls that the application does not notice.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hip_calls.h"
#include "maps.h"

enum { LOOKED_AT_BYTES = 32, CALL = 0xe8 };

// The last failure without a look at the error since then.
struct failure {
  const char *what;                // NULL: a launch by <<<...>>>, which returns nothing
  uint64_t site;
  hip_error error;
};
static __thread struct failure unseen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct failure last_unseen;
static int exit_status;

static const char *name_of(hip_error error) {
  static _Atomic(void *) kept;
  const char *(*name)(hip_error) = (const char *(*)(hip_error))drv_hip_function(&kept, "hipGetErrorName");
  return name ? name(error) : "an error";
}

// Whether the code behind a call looks at what it returned: before the next call it compares or stores EAX. Code that is read as
// something else by chance only hides a failure.
static int uses_result(uint64_t site) {
  static const uint8_t uses[][2] = {{0x85, 0xc0}, {0x83, 0xf8}, {0x89, 0x45}, {0x89, 0x44}, {0x89, 0x84}, {0x89, 0x85}, {0x89, 0xc0}, {0x89, 0xc1},
                                    {0x89, 0xc2}, {0x89, 0xc3}, {0x89, 0xc5}, {0x89, 0xc6}, {0x89, 0xc7}, {0x89, 0x04}, {0x89, 0x05}};
  if (!drv_is_mapped(site, site + LOOKED_AT_BYTES)) return 1;
  const uint8_t *code = (const uint8_t *)site;
  for (int k = 0; k + 1 < LOOKED_AT_BYTES && code[k] != CALL; k++) {
    if (code[k] == 0x3d || code[k] == 0xc3) return 1;  // a comparison with a constant, or the caller returns it
    for (size_t u = 0; u < sizeof uses / sizeof *uses; u++)
      if (memcmp(code + k, uses[u], sizeof *uses) == 0) return 1;
  }
  return 0;
}

void drv_hip_failed(const char *what, uint64_t site, hip_error error) {
  if (drv_hip_is_reported(site) || (what && uses_result(site))) return;
  unseen = (struct failure){what, site, error};
  pthread_mutex_lock(&lock);
  last_unseen = unseen;
  pthread_mutex_unlock(&lock);
}

static void seen(void) {
  if (!unseen.error) return;
  unseen.error = HIP_SUCCESS;
  pthread_mutex_lock(&lock);
  last_unseen.error = HIP_SUCCESS;
  pthread_mutex_unlock(&lock);
}

static void keep_status(int status, void *unused) {
  (void)unused;
  exit_status = status;
}

__attribute__((constructor)) static void watch_status(void) { on_exit(keep_status, NULL); }

void drv_hip_errors_say_unseen(void) {
  const struct failure *f = &last_unseen;
  if (!f->error) return;
  if (!f->what)
    drv_hip_report(RPL_ON_HOST, "failed_launch", (uint64_t[3]){f->site}, "the launch at {0} failed with %s, and the error was not looked at",
                   name_of(f->error));
  else if (!exit_status)
    drv_hip_report(RPL_ON_HOST, "unchecked_error", (uint64_t[3]){f->site}, "%s at {0} failed with %s, and the error was not looked at", f->what,
                   name_of(f->error));
}

#define DEFINE_LOOK(name)                                      \
  HIP(name, (void)) {                                          \
    if (!REAL(name)) return HIP_NOT_INITIALIZED;               \
    seen();                                                    \
    return REAL(name)();                                       \
  }
DEFINE_LOOK(hipGetLastError)
DEFINE_LOOK(hipPeekAtLastError)
DEFINE_LOOK(hipExtGetLastError)
