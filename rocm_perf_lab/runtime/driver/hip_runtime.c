// What rocm-perf-lab's own HIP runtime, in the same process, asks of the driver. These are the only functions that it calls by name.
#include <sys/uio.h>

#include "allocations.h"
#include "execution.h"
#include "hip_calls.h"
#include "order.h"

RPL_EXPORT uint32_t rpl_driver_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes);
RPL_EXPORT void rpl_driver_loaded_code(const void *elf, uint64_t bytes);
RPL_EXPORT void rpl_driver_ring(void);
RPL_EXPORT int rpl_driver_watches_graph(void);
RPL_EXPORT void rpl_driver_begin_node(uint32_t node, const uint64_t *ancestors);
RPL_EXPORT void rpl_driver_node_accesses(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, int writes);
RPL_EXPORT void rpl_driver_end_node(void);
RPL_EXPORT void rpl_driver_short_arguments(uint64_t bytes, uint64_t wanted);

uint32_t rpl_driver_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes) {
  return drv_settings() ? drv_service_ask(kind, parts, count, answer, bytes) : 0;
}

// An ELF file that the runtime is loading, or NULL after it has unloaded one: code in device memory has changed.
void rpl_driver_loaded_code(const void *elf, uint64_t bytes) {
  if (elf) drv_elf_add(elf, bytes);
  drv_kernels_invalidate();
}

void rpl_driver_ring(void) { drv_queues_wake(); }

// ---- nodes of the graph that this thread launches ----

int rpl_driver_watches_graph(void) { return drv_order_has_current(); }

void rpl_driver_begin_node(uint32_t node, const uint64_t *ancestors) { drv_order_begin_node(node, ancestors); }

void rpl_driver_node_accesses(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, int writes) {
  struct drv_block_place place;
  struct drv_extent extent = {address, bytes, rows, pitch, writes};
  struct drv_allocation a;
  uint64_t site = drv_order_current_site();
  if (drv_allocation_at(address, &a) && drv_allocation_is_stale(&a))
    drv_hip_report(RPL_ON_HOST, "use_after_free", (uint64_t[3]){site, a.freed_site, a.site},
                   "a node of the graph launched at {0} %s memory that was freed at {1} (%llu bytes allocated at {2})", writes ? "writes" : "reads",
                   (unsigned long long)a.bytes);
  if (drv_memory_block(address, &place)) drv_order_node_accesses(&extent);
}

void rpl_driver_end_node(void) { drv_order_end_node(); }

void rpl_driver_short_arguments(uint64_t bytes, uint64_t wanted) {
  drv_hip_report(RPL_ON_HOST, "bad_arguments", (uint64_t[3]){drv_order_current_site()},
                 "the launch at {0} passes %llu bytes of arguments; the kernel has %llu", (unsigned long long)bytes, (unsigned long long)wanted);
}
