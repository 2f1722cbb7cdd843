// The file of records is written through a mapping, so that a process that is killed leaves all of its records behind.
#include "records.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_PLACES = 1024, ALIGNMENT = 8, LONGEST_PATH = 4096, MOST_FILES = 1000 };
static const uint64_t WINDOW_BYTES = 4 << 20, PAGE = 4096;

struct seen { uint64_t hash; uint32_t number; };

static struct {
  pthread_mutex_t lock;
  int is_open, is_broken;
  char path[LONGEST_PATH];
  uint8_t *window;
  uint64_t begin, bytes, used;     // of the window in the file; used bytes of it
  struct seen *seen;               // by hash, open addressing; number 0 is a free place
  uint64_t capacity, count;
} records = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- the file ----

// Maps `size` bytes of the file. It is opened each time, since applications close descriptors that are not theirs.
static void *map_file(uint64_t begin, uint64_t size) {
  int file = open(records.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return NULL;
  // Space is allocated now: a full disk would be a SIGBUS later.
  void *window = MAP_FAILED;
  if (!posix_fallocate(file, (off_t)begin, (off_t)size))
    window = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)begin);
  close(file);
  return window == MAP_FAILED ? NULL : window;
}

// Moves the window behind the entries that are written, with room for `bytes`. Returns 1 if that is impossible.
static int move_window(uint64_t bytes) {
  uint64_t end = records.begin + records.used, begin = end / PAGE * PAGE;
  uint64_t size = (end - begin + bytes + WINDOW_BYTES - 1) / WINDOW_BYTES * WINDOW_BYTES;
  if (records.window) munmap(records.window, records.bytes);
  records.window = map_file(begin, size);
  if (!records.window) return 1;
  records.begin = begin;
  records.bytes = size;
  records.used = end - begin;
  return 0;
}

static void *room(uint64_t bytes) {
  if (records.is_broken) return NULL;
  if ((!records.window || records.used + bytes > records.bytes) && move_window(bytes)) {
    records.is_broken = 1;
    drv_say("the records of dispatches cannot be written: the session directory is full");
    return NULL;
  }
  return records.window + records.used;
}

struct part { const void *data; uint64_t bytes; };

// The kind is stored last: an entry without kind is the end of the file.
static void append(uint32_t kind, const struct part *parts, int count) {
  uint64_t bytes = 0;
  for (int k = 0; k < count; k++) bytes += parts[k].bytes;
  uint64_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  uint8_t *place = room(sizeof(struct rpl_entry) + padded);
  if (!place) return;
  struct rpl_entry *header = (struct rpl_entry *)place;
  uint8_t *next = place + sizeof *header;
  for (int k = 0; k < count; k++) {
    memcpy(next, parts[k].data, parts[k].bytes);
    next += parts[k].bytes;
  }
  header->bytes = (uint32_t)padded;
  __atomic_store_n(&header->kind, kind, __ATOMIC_RELEASE);
  records.used += sizeof *header + padded;
}

// A process that replaced its program with another one (exec) has several files.
static void name_file(void) {
  for (int number = 0; number < MOST_FILES; number++) {
    snprintf(records.path, sizeof records.path, "%s/records.%d.%d", drv_settings()->session, (int)getpid(), number);
    if (access(records.path, F_OK) != 0) return;
  }
}

static void begin_file(void) {
  name_file();
  char executable[LONGEST_PATH] = {0};
  if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0) executable[0] = 0;
  records.is_open = 1;
  struct rpl_process_entry process = {
      .protocol = RPL_PROTOCOL, .pid = (uint32_t)getpid(), .parent = (uint32_t)getppid(), .start_ns = drv_nanoseconds()};
  struct part parts[] = {{&process, sizeof process}, {executable, strlen(executable) + 1}};
  append(RPL_ENTRY_PROCESS, parts, 2);
}

static void write_entry(uint32_t kind, const struct part *parts, int count) {
  if (!records.is_open) begin_file();
  append(kind, parts, count);
}

// ---- counts ----

static uint64_t mixed(uint64_t hash, const void *data, uint64_t words) {
  const uint64_t *values = data;
  for (uint64_t k = 0; k < words; k++) {
    hash = (hash ^ values[k]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Equal work at other addresses is equal.
static struct rpl_counters without_addresses(const struct rpl_counters *counters) {
  struct rpl_counters result = *counters;
  result.address_sum = 0;
  return result;
}

static struct seen *place_of(struct seen *places, uint64_t capacity, uint64_t hash) {
  uint64_t k = hash & (capacity - 1);
  while (places[k].number && places[k].hash != hash) k = (k + 1) & (capacity - 1);
  return &places[k];
}

// Returns 1 if memory is short.
static int grow(void) {
  if (records.capacity && 2 * records.count < records.capacity) return 0;
  uint64_t larger = records.capacity ? 2 * records.capacity : FIRST_PLACES;
  struct seen *grown = calloc(larger, sizeof *grown);
  if (!grown) return 1;
  for (uint64_t k = 0; k < records.capacity; k++)
    if (records.seen[k].number) *place_of(grown, larger, records.seen[k].hash) = records.seen[k];
  free(records.seen);
  records.seen = grown;
  records.capacity = larger;
  return 0;
}

uint32_t drv_records_counts(const struct drv_kernel *kernel, const struct drv_work *work) {
  struct rpl_counters counters = without_addresses(work->counters);
  uint64_t words = kernel->block_count, hash = mixed(kernel->id + 1, &counters, sizeof counters / sizeof(uint64_t));
  hash = mixed(mixed(hash, work->executions, words), work->active_lanes, words);
  uint32_t number = 0;
  pthread_mutex_lock(&records.lock);
  if (!grow()) {
    struct seen *place = place_of(records.seen, records.capacity, hash);
    if (!place->number) {
      place->hash = hash;
      place->number = (uint32_t)++records.count;
      struct rpl_counts_entry entry = {.number = place->number, .id = kernel->id, .block_count = kernel->block_count};
      struct part parts[] = {
          {&entry, sizeof entry}, {work->executions, words * 8}, {work->active_lanes, words * 8}, {&counters, sizeof counters}};
      write_entry(RPL_ENTRY_COUNTS, parts, 4);
    }
    number = place->number;
  }
  pthread_mutex_unlock(&records.lock);
  return number;
}

void drv_records_dispatch(const struct rpl_dispatch_entry *entry) {
  struct part part = {entry, sizeof *entry};
  pthread_mutex_lock(&records.lock);
  write_entry(RPL_ENTRY_DISPATCH, &part, 1);
  pthread_mutex_unlock(&records.lock);
}

void drv_records_copy(const struct rpl_copy_entry *entry) {
  struct part part = {entry, sizeof *entry};
  pthread_mutex_lock(&records.lock);
  write_entry(RPL_ENTRY_COPY, &part, 1);
  pthread_mutex_unlock(&records.lock);
}

// The child starts a file of its own.
void drv_records_forget(void) {
  pthread_mutex_init(&records.lock, NULL);
  if (records.window) munmap(records.window, records.bytes);
  records.window = NULL;
  records.is_open = records.is_broken = 0;
  records.begin = records.bytes = records.used = records.count = 0;
  if (records.seen) memset(records.seen, 0, records.capacity * sizeof *records.seen);
}
