// Settings of the session, read once from the file that `rocm-perf run` wrote. Works before any constructor of the process ran:
// no allocation, no locale, no functions that this library replaces.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "system.h"

enum { FILE_BYTES = 16384, DEFAULT_LINE_BYTES = 128 };
enum state { UNKNOWN, READING, NO_SESSION, HAS_SESSION };
static struct drv_settings settings;
static _Atomic int state;

struct number { const char *name; size_t offset, bytes; };
#define NUMBER(type, field) {#field, offsetof(struct type, field), sizeof(((struct type *)0)->field)}
static const struct number globals[] = {
    NUMBER(drv_settings, gpu_count), NUMBER(drv_settings, threads), NUMBER(drv_settings, any_order),
    NUMBER(drv_settings, max_instructions), NUMBER(drv_settings, max_seconds), NUMBER(drv_settings, heartbeat_seconds),
    NUMBER(drv_settings, records), NUMBER(drv_settings, record_first), NUMBER(drv_settings, record_end),
    NUMBER(drv_settings, record_every), NUMBER(drv_settings, trace), NUMBER(drv_settings, checks)};
static const struct number of_gpu[] = {
    {"id", offsetof(struct drv_gpu, gpu_id), 4}, NUMBER(drv_gpu, node), NUMBER(drv_gpu, render_minor), NUMBER(drv_gpu, device_id),
    NUMBER(drv_gpu, family_id), NUMBER(drv_gpu, compute_units), NUMBER(drv_gpu, xcds), NUMBER(drv_gpu, wave_size),
    NUMBER(drv_gpu, clock_mhz), NUMBER(drv_gpu, memory_clock_mhz), NUMBER(drv_gpu, memory_bytes), NUMBER(drv_gpu, xnack),
    NUMBER(drv_gpu, vector_line_bytes), NUMBER(drv_gpu, lds_bytes), NUMBER(drv_gpu, launch_ns),
    NUMBER(drv_gpu, memory_gb_per_s)};

static void store(void *structure, const struct number *numbers, size_t count, const char *name, const char *value) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(name, numbers[i].name) != 0)
      continue;
    uint64_t number = strtoull(value, NULL, 0);
    memcpy((char *)structure + numbers[i].offset, &number, numbers[i].bytes);
  }
}

static void copy_text(char *to, size_t bytes, const char *from) {
  size_t length = strnlen(from, bytes - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

static void store_of_gpu(const char *name, const char *value) {
  char *end;
  unsigned long index = strtoul(name, &end, 10);
  if (*end != '.' || index >= RPL_MAX_GPUS)
    return;
  struct drv_gpu *gpu = &settings.gpus[index];
  if (strcmp(end + 1, "architecture") == 0)
    copy_text(gpu->architecture, sizeof gpu->architecture, value);
  else if (strcmp(end + 1, "name") == 0)
    copy_text(gpu->name, sizeof gpu->name, value);
  else
    store(gpu, of_gpu, sizeof of_gpu / sizeof of_gpu[0], end + 1, value);
}

static void parse(char *text) {
  for (char *line = text; line && *line;) {
    char *next = strchr(line, '\n');
    if (next)
      *next++ = 0;
    char *space = strchr(line, ' ');
    if (space) {
      *space = 0;
      if (strncmp(line, "gpu.", 4) == 0)
        store_of_gpu(line + 4, space + 1);
      else
        store(&settings, globals, sizeof globals / sizeof globals[0], line, space + 1);
    }
    line = next;
  }
}

static int read_settings(void) {
  static char text[FILE_BYTES];
  char path[sizeof settings.session + 16];
  const char *session = getenv("RPL_SESSION");
  if (!session || session[0] != '/' || strlen(session) >= sizeof settings.session)
    return 0;
  copy_text(settings.session, sizeof settings.session, session);
  snprintf(path, sizeof path, "%s/settings", session);
  long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return 0;
  size_t length = 0;
  for (long got; length < sizeof text - 1 && (got = syscall(SYS_read, fd, text + length, sizeof text - 1 - length)) > 0;)
    length += (size_t)got;
  syscall(SYS_close, fd);
  text[length] = 0;
  for (int i = 0; i < RPL_MAX_GPUS; i++)
    settings.gpus[i].vector_line_bytes = DEFAULT_LINE_BYTES;
  parse(text);
  if (settings.gpu_count > RPL_MAX_GPUS)
    settings.gpu_count = RPL_MAX_GPUS;
  return settings.gpu_count > 0;
}

const struct drv_settings *drv_settings(void) {
  int now = atomic_load_explicit(&state, memory_order_acquire);
  if (now == HAS_SESSION)
    return &settings;
  if (now == NO_SESSION)
    return NULL;
  int expected = UNKNOWN;
  if (atomic_compare_exchange_strong(&state, &expected, READING)) {
    int error = errno;
    int found = read_settings();
    errno = error;
    atomic_store_explicit(&state, found ? HAS_SESSION : NO_SESSION, memory_order_release);
  }
  while ((now = atomic_load_explicit(&state, memory_order_acquire)) == READING)
    sched_yield();
  return now == HAS_SESSION ? &settings : NULL;
}

int drv_gpu_index(uint32_t gpu_id) {
  const struct drv_settings *session = drv_settings();
  for (uint32_t i = 0; session && i < session->gpu_count; i++)
    if (session->gpus[i].gpu_id == gpu_id)
      return (int)i;
  return -1;
}

const struct drv_gpu *drv_gpu_of_id(uint32_t gpu_id) {
  int index = drv_gpu_index(gpu_id);
  return index < 0 ? NULL : &settings.gpus[index];
}

void drv_say(const char *text) {
  char line[2048];
  int length = snprintf(line, sizeof line, "rocm-perf: %s\n", text);
  const char *from = line;
  char *longer = length < (int)sizeof line ? NULL : malloc((size_t)length + 1);
  if (longer) {
    length = snprintf(longer, (size_t)length + 1, "rocm-perf: %s\n", text);
    from = longer;
  }
  if (length >= (int)sizeof line && !longer)
    length = sizeof line - 1;
  syscall(SYS_write, STDERR_FILENO, from, (size_t)length);
  free(longer);
}

void drv_log(uint32_t level, const char *format, ...) {
  const struct drv_settings *session = drv_settings();
  if (!session || session->trace < level)
    return;
  int error = errno;
  char line[512];
  int start = snprintf(line, sizeof line, "rocm-perf[%ld]: ", syscall(SYS_gettid));
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line + start, sizeof line - (size_t)start - 1, format, arguments);
  va_end(arguments);
  size_t room = sizeof line - (size_t)start - 2;
  size_t end = (size_t)start + ((size_t)length < room ? (size_t)length : room);
  line[end] = '\n';
  syscall(SYS_write, STDERR_FILENO, line, end + 1);
  errno = error;
}
