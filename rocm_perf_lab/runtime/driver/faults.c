// Faults of kernels: the service explains them; the codes are those that the runtime reports.
#include "faults.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "maps.h"
#include "service.h"

enum { LINE_BYTES = 512, NEAR = 2 };

// Ranges of memory on both sides of an address, and the one that contains it.
static int near(uint32_t gpu, uint64_t address, uint64_t found[NEAR][2]) {
  const struct drv_ranges *ranges = drv_ranges_get(gpu);
  uint64_t first = 0, after = ranges ? ranges->count : 0;
  while (first < after) {
    uint64_t middle = (first + after) / 2;
    if (ranges->ranges[middle].begin > address) after = middle;
    else first = middle + 1;
  }
  int count = 0;
  for (uint64_t k = first ? first - 1 : 0; ranges && k <= first && k < ranges->count; k++, count++) {
    found[count][0] = ranges->ranges[k].begin;
    found[count][1] = ranges->ranges[k].end;
  }
  if (ranges) drv_ranges_put(ranges);
  return count;
}

static void explain(const struct rpl_fault *fault, const struct drv_watched *watched, const struct drv_kernel *kernel,
                    const struct rpl_launch *launch) {
  struct rpl_fault_report head = {.id = kernel->id, .queue = watched->queue_id, .dispatch = watched->number,
                                  .max_instructions = (uint64_t)drv_settings()->max_instructions};
  memcpy(head.grid, launch->grid, sizeof head.grid);
  memcpy(head.block, launch->block, sizeof head.block);
  uint64_t ranges[NEAR][2];
  uint64_t address = fault->lanes ? fault->addresses[__builtin_ctzll(fault->lanes)] : 0;
  int count = near(watched->gpu, address, ranges);
  head.is_in_host_memory = fault->kind == RPL_FAULT_MEMORY && drv_is_host_memory(address);
  struct iovec parts[] = {{&head, sizeof head}, {(void *)fault, sizeof *fault}, {ranges, (size_t)count * sizeof *ranges}};
  void *text;
  uint64_t bytes;
  if (drv_service_ask(RPL_FAULT_TEXT, parts, 3, &text, &bytes) == RPL_TEXT_IS) {
    drv_say_answer(text);
  } else {
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "kernel %.300s: fault %u", kernel->name, fault->kind);
    if (length > 0) drv_say(line);
  }
  free(text);
}

static void say_stopped(const struct drv_watched *watched) {
  char line[LINE_BYTES];
  int length = snprintf(line, sizeof line, "kernel %.300s (dispatch %llu of queue %u) was stopped after max_seconds = %u",
                        watched->kernel, (unsigned long long)watched->number, watched->queue_id, drv_settings()->max_seconds);
  if (length > 0) drv_say(line);
}

static uint32_t failure_of(const struct rpl_fault *fault) {
  switch (fault->kind) {
    case RPL_FAULT_MEMORY: return fault->detail ? RPL_FAILED_READ_ONLY : RPL_FAILED_MEMORY;
    case RPL_FAULT_MISALIGNED: case RPL_FAULT_LDS: case RPL_FAULT_SCRATCH: return RPL_FAILED_LDS;
    case RPL_FAULT_BUDGET: case RPL_FAULT_BARRIER: return RPL_FAILED_LIMIT;
    case RPL_FAULT_TRAP: return (int64_t)fault->detail < 0 ? RPL_FAILED_MEMORY : RPL_FAILED_TRAP;  // instructions fetched where there are none
    case RPL_FAULT_HOST_MEMORY: return RPL_FAILED_TRANSLATION;
    default: return RPL_FAILED_ILLEGAL;
  }
}

uint32_t drv_fault_outcome(const struct rpl_fault *fault, const struct drv_watched *watched, const struct drv_kernel *kernel,
                           const struct rpl_launch *launch, uint64_t *address) {
  if (!fault) {
    if (watched->stop == RPL_STOP_QUEUE) return RPL_FAILED_STOPPED;
    if (watched->stop != RPL_STOP_LIMIT) return 0;
    say_stopped(watched);
    return RPL_FAILED_LIMIT;
  }
  explain(fault, watched, kernel, launch);
  uint32_t failure = failure_of(fault);
  if ((failure == RPL_FAILED_MEMORY || failure == RPL_FAILED_READ_ONLY) && fault->lanes) *address = fault->addresses[__builtin_ctzll(fault->lanes)];
  return failure;
}
