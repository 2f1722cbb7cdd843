// The mappings of this process, from /proc/self/maps.
#ifndef RPL_MAPS_H
#define RPL_MAPS_H
#include "system.h"

struct drv_mapping {
  uint64_t begin, end, offset;
  int readable, writable, executable, is_shared;
  struct drv_file_key file;       // inode 0: anonymous
};
// Calls `visit` for the mappings that overlap [begin, end), in order of their addresses, until it returns nonzero; returns that.
// The list is read before the first call. -1: it cannot be read.
int drv_for_each_mapping(uint64_t begin, uint64_t end, int (*visit)(const struct drv_mapping *mapping, void *argument),
                         void *argument);
// Whether an address is in memory that only the host has: the heap, a stack, a variable. GPUs have shared mappings.
int drv_is_host_memory(uint64_t address);
#endif
