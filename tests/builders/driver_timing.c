// The parts of the emulated driver that timing.c, detail.c, estimates.c and records.c call, without a driver: one GPU, settings from
// the test, and a callback instead of the service.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "driver.h"
#include "service.h"
#include "totals.h"

typedef void (*answer_callback)(const void *message, uint64_t bytes, struct rpl_duration *answer);
static struct drv_settings settings;
static answer_callback answers;

void test_set_up(const char *session, uint32_t compute_units, uint32_t xcds, uint32_t vector_line_bytes, uint32_t clock_mhz,
                 uint32_t launch_ns, uint32_t memory_gb_per_s, uint32_t records, answer_callback callback) {
  strncpy(settings.session, session, sizeof settings.session - 1);
  settings.gpu_count = 1;
  settings.gpus[0] = (struct drv_gpu){
      .gpu_id = RPL_FIRST_GPU_ID, .node = 1, .compute_units = compute_units, .xcds = xcds, .vector_line_bytes = vector_line_bytes,
      .clock_mhz = clock_mhz, .launch_ns = launch_ns, .memory_gb_per_s = memory_gb_per_s};
  settings.records = records;
  answers = callback;
}

// The test keeps its ranges as long as the library.
const struct drv_ranges *drv_ranges_keep(const struct drv_ranges *ranges) { return ranges; }
void drv_ranges_put(const struct drv_ranges *ranges) { (void)ranges; }

struct drv_kernel *test_kernel(uint32_t id, uint32_t block_count) {
  struct drv_kernel *kernel = calloc(1, sizeof *kernel);
  kernel->id = id;
  kernel->block_count = block_count;
  return kernel;
}

const struct drv_settings *drv_settings(void) { return &settings; }
const struct drv_gpu *drv_gpu_of_id(uint32_t gpu_id) { return gpu_id == RPL_FIRST_GPU_ID ? &settings.gpus[0] : NULL; }
void drv_totals_add(uint64_t instructions, uint64_t nanoseconds) { (void)instructions, (void)nanoseconds; }
void drv_say(const char *text) { fprintf(stderr, "said: %s\n", text); }
void drv_say_answer(char *text) { fprintf(stderr, "answered: %s", text); }
uint64_t drv_nanoseconds(void) { return 1000; }
// Device memory is everything above 4 GiB.
int drv_memory_block(uint64_t address, struct drv_block_place *place) {
  place->gpu_id = RPL_FIRST_GPU_ID;
  place->is_vram = address >> 32 != 0;
  return 1;
}

uint32_t drv_service_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes) {
  uint64_t length = 0;
  for (int k = 0; k < count; k++) length += parts[k].iov_len;
  char *message = malloc(length), *next = message;
  for (int k = 0; k < count; k++) next = (char *)memcpy(next, parts[k].iov_base, parts[k].iov_len) + parts[k].iov_len;
  *answer = calloc(1, sizeof(struct rpl_duration));
  *bytes = sizeof(struct rpl_duration);
  if (kind == RPL_RECORD) answers(message, length, *answer);
  free(message);
  return RPL_DURATION_IS;
}
