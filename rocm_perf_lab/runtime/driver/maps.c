// Reads /proc/self/maps with direct system calls, since the functions of the C library may be replaced or in use.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "maps.h"

enum { FIRST_BYTES = 1 << 18 };
struct text { char *bytes; size_t size, capacity; };

static void *pages(size_t size) {
  void *memory = (void *)syscall(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int grow(struct text *text) {
  size_t capacity = text->capacity ? 2 * text->capacity : FIRST_BYTES;
  char *larger = pages(capacity);
  if (!larger)
    return 0;
  if (text->bytes) {
    memcpy(larger, text->bytes, text->size);
    syscall(SYS_munmap, text->bytes, text->capacity);
  }
  *text = (struct text){larger, text->size, capacity};
  return 1;
}

static struct text read_maps(void) {
  struct text text = {0};
  long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return text;
  for (;;) {
    if (text.capacity - text.size < 2 && !grow(&text))
      break;
    long got = syscall(SYS_read, fd, text.bytes + text.size, text.capacity - text.size - 1);
    if (got <= 0)
      break;
    text.size += (size_t)got;
  }
  syscall(SYS_close, fd);
  if (text.bytes)
    text.bytes[text.size] = 0;
  return text;
}

// begin-end rwxp offset major:minor inode path
static struct drv_mapping parse(const char *line) {
  char *at;
  struct drv_mapping mapping = {0};
  mapping.begin = strtoull(line, &at, 16);
  mapping.end = strtoull(at + 1, &at, 16);
  at++;
  mapping.readable = at[0] == 'r';
  mapping.writable = at[1] == 'w';
  mapping.executable = at[2] == 'x';
  mapping.is_shared = at[3] == 's';
  mapping.offset = strtoull(at + 4, &at, 16);
  unsigned major_number = (unsigned)strtoul(at, &at, 16);
  unsigned minor_number = (unsigned)strtoul(at + 1, &at, 16);
  mapping.file = (struct drv_file_key){makedev(major_number, minor_number), strtoull(at, &at, 10)};
  return mapping;
}

int drv_for_each_mapping(uint64_t begin, uint64_t end, int (*visit)(const struct drv_mapping *, void *), void *argument) {
  struct text text = read_maps();
  if (!text.bytes)
    return -1;
  int result = 0;
  for (const char *line = text.bytes; !result && line && *line;) {
    struct drv_mapping mapping = parse(line);
    if (mapping.begin >= end)
      break;
    if (mapping.end > begin)
      result = visit(&mapping, argument);
    line = strchr(line, '\n');
    line = line ? line + 1 : NULL;
  }
  syscall(SYS_munmap, text.bytes, text.capacity);
  return result;
}

static int note_host_memory(const struct drv_mapping *mapping, void *is_host) {
  *(int *)is_host = mapping->readable && !mapping->is_shared;
  return 1;
}

int drv_is_host_memory(uint64_t address) {
  int is_host = 0;
  return drv_for_each_mapping(address, address + 1, note_host_memory, &is_host) == 1 && is_host;
}
