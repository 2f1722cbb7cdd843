// Findings are rare and precious: each is written at once, and repetitions are counted through a mapping of the file's header.
#define _GNU_SOURCE
#include "findings.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver.h"

enum { LONGEST_PATH = 4096, MOST_FILES = 1000, BUCKETS = 8192, ALIGNMENT = 8, FIXED_PARTS = 4 };

struct known { uint64_t hash; uint32_t number; };

static struct {
  pthread_mutex_t lock;
  int is_open, is_broken;
  char path[LONGEST_PATH];
  struct rpl_findings_header *header;
  struct known known[BUCKETS];    // open addressing; hash 0 is a free place
  uint32_t count;
} findings = {.lock = PTHREAD_MUTEX_INITIALIZER};

int drv_check_is_on(uint32_t checks) {
  const struct drv_settings *settings = drv_settings();
  return settings && (settings->checks & checks) != 0;
}

// ---- the file ----

static void open_file(void) {
  findings.is_open = 1;
  for (int number = 0; number < MOST_FILES; number++) {
    snprintf(findings.path, sizeof findings.path, "%s/findings.%d.%d", drv_settings()->session, (int)getpid(), number);
    if (access(findings.path, F_OK) != 0) break;
  }
  int file = open(findings.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void *header = MAP_FAILED;
  if (file >= 0 && !posix_fallocate(file, 0, sizeof *findings.header))
    header = mmap(NULL, sizeof *findings.header, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (header == MAP_FAILED) {
    findings.is_broken = 1;
    drv_say("findings cannot be written: the session directory is full");
    return;
  }
  findings.header = header;
  findings.header->protocol = RPL_FINDINGS_PROTOCOL;
  findings.header->pid = (uint32_t)getpid();
}

// Returns the path of the library that contains an address, and the address at link time.
static const char *library_of(uint64_t site, uint64_t *offset, char executable[LONGEST_PATH]) {
  Dl_info info;
  struct link_map *map = NULL;
  *offset = 0;
  if (!site || !dladdr1((const void *)site, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return "";
  *offset = site - map->l_addr;
  if (map->l_name && map->l_name[0]) return map->l_name;
  ssize_t length = readlink("/proc/self/exe", executable, LONGEST_PATH - 1);
  executable[length < 0 ? 0 : length] = 0;
  return executable;
}

static uint32_t padding_of(uint64_t bytes) { return (uint32_t)(-bytes % ALIGNMENT); }

// The file is opened each time, since applications close descriptors that are not theirs.
static void append(struct rpl_finding_entry *entry, const struct drv_finding *f) {
  static const char zeros[ALIGNMENT];
  char executable[LONGEST_PATH];
  struct iovec parts[FIXED_PARTS + RPL_MOST_SITES + 2];
  int count = 0;
  parts[count++] = (struct iovec){entry, sizeof *entry};
  parts[count++] = (struct iovec){(void *)f->detail, f->detail_bytes};
  parts[count++] = (struct iovec){(void *)zeros, padding_of(f->detail_bytes)};
  parts[count++] = (struct iovec){(void *)f->kind, strlen(f->kind) + 1};
  parts[count++] = (struct iovec){(void *)f->message, strlen(f->message) + 1};
  for (int k = 0; k < RPL_MOST_SITES; k++) {
    const char *library = library_of(f->sites[k], &entry->offsets[k], executable);
    parts[count++] = (struct iovec){(void *)library, strlen(library) + 1};
  }
  uint64_t bytes = 0;
  for (int k = 0; k < count; k++) bytes += parts[k].iov_len;
  parts[count++] = (struct iovec){(void *)zeros, padding_of(bytes)};
  entry->bytes = (uint32_t)(bytes + padding_of(bytes));
  int file = open(findings.path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0 || writev(file, parts, count) != (ssize_t)entry->bytes) findings.is_broken = 1;
  if (file >= 0) close(file);
}

// ---- once each ----

static uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct drv_finding *f) {
  uint64_t hash = mixed(mixed(mixed(f->check, f->key), f->sites[0]), f->kernel ? f->kernel->id + 1ull : 0);
  for (const char *at = f->kind; *at; at++) hash = mixed(hash, (uint8_t)*at);
  return hash ? hash : 1;
}

static struct known *place_of(uint64_t hash) {
  uint64_t k = hash % BUCKETS;
  while (findings.known[k].hash && findings.known[k].hash != hash) k = (k + 1) % BUCKETS;
  return &findings.known[k];
}

static void find(const struct drv_finding *f) {
  if (!findings.is_open) open_file();
  if (findings.is_broken) return;
  struct known *known = place_of(hash_of(f));
  if (!known->hash && findings.count == RPL_MOST_FINDINGS) {
    findings.header->dropped++;
    return;
  }
  if (!known->hash) {
    *known = (struct known){hash_of(f), findings.count++};
    struct rpl_finding_entry entry = {.number = known->number, .check = f->check, .kernel = f->kernel ? f->kernel->id + 1 : 0,
                                      .detail_bytes = f->detail_bytes};
    append(&entry, f);
  }
  findings.header->counts[known->number]++;
}

void drv_find(const struct drv_finding *finding) {
  if (!drv_check_is_on(finding->check)) return;
  pthread_mutex_lock(&findings.lock);
  find(finding);
  pthread_mutex_unlock(&findings.lock);
}

void drv_findings_forget(void) {
  pthread_mutex_init(&findings.lock, NULL);
  if (findings.header) munmap(findings.header, sizeof *findings.header);
  findings.header = NULL;
  findings.is_open = findings.is_broken = 0;
  findings.count = 0;
  memset(findings.known, 0, sizeof findings.known);
}
