// Memory that kernels allocate: slabs of 2 MiB, aligned to their size, in which the device libraries manage small blocks, and large blocks.
#include "modules.h"

enum { SLAB_BYTES = 2 << 20 };

uint64_t hip_heap_allocate(struct hip_device *device, uint64_t bytes) {
  struct hip_memory memory;
  if (!bytes || hip_memory_allocate(device, HIP_MEMORY_INTERNAL, bytes, bytes == SLAB_BYTES ? SLAB_BYTES : 0, 0, &memory) != hipSuccess) return 0;
  return memory.address;
}

void hip_heap_free(uint64_t address) {
  if (hip_memory_free(address) != hipSuccess) hip_say("a kernel freed %#lx, which its malloc did not return", (unsigned long)address);
}
