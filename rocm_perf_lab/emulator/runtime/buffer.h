// Addresses of MUBUF and MTBUF accesses.
#ifndef RPL_BUFFER_H
#define RPL_BUFFER_H
#include "access.h"

enum { RPL_UNTYPED, RPL_TYPED };

struct rpl_buffer_access {
  uint64_t lanes[4];              // lanes whose k-th dword (or narrow element) is inside the resource
  uint64_t address[RPL_LANES];
};

// Computes and checks the addresses of `elements` adjacent elements of `element` bytes each; returns 1 after a fault.
int rpl_buffer_addresses(struct rpl_wave *w, int inst, int access, int typed, int srsrc, int vindex, int voffset, uint32_t soffset,
                         int32_t offset, uint32_t element, int elements, struct rpl_buffer_access *out);
#endif
