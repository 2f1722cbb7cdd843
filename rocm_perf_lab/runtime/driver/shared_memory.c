// Shared memory that AMD's libraries create by name: a process that is killed leaves it behind. Its names are listed in the session
// directory, and `rocm-perf run` removes what is left. Other shared memory belongs to the application and is not touched.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "driver.h"

static const char *const prefixes[] = {"/hip_event", "/rocm_smi_", "/hsakmt_"};

static int is_of_runtime(const char *name) {
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
      return 1;
  return 0;
}

static void note_name(const struct drv_settings *session, const char *name) {
  char path[sizeof session->session + 16], line[300];
  snprintf(path, sizeof path, "%s/shared", session->session);
  int length = snprintf(line, sizeof line, "%s\n", name + 1);
  long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || length >= (int)sizeof line)
    return;
  syscall(SYS_write, fd, line, (size_t)length);
  syscall(SYS_close, fd);
}

RPL_EXPORT int shm_open(const char *name, int flags, mode_t mode) {
  int (*next)(const char *, int, mode_t) = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, "shm_open");
  const struct drv_settings *session = drv_settings();
  if (!next) {
    errno = ENOSYS;
    return -1;
  }
  if (!session || !(flags & O_CREAT) || !is_of_runtime(name))
    return next(name, flags, mode);
  int fd = next(name, flags | O_EXCL, mode);
  if (fd >= 0)
    note_name(session, name);
  else if (errno == EEXIST && !(flags & O_EXCL))
    fd = next(name, flags, mode);  // another process created it
  return fd;
}
