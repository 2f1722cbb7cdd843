// Entries of the table of kernels, for the part that replaces their code by better one.
#ifndef RPL_KERNELS_H
#define RPL_KERNELS_H
#include "driver.h"

enum { RPL_DESCRIPTOR_BYTES = 64 };
// Never freed: wavefronts, records and the table refer to it.
struct entry {
  struct drv_kernel kernel;       // first: a pointer to it is a pointer to the entry
  struct entry *next;
  struct entry *next_hot;
  uint8_t descriptor[RPL_DESCRIPTOR_BYTES];
  struct drv_block_place place;
  uint64_t hash;                  // of the code
  _Atomic uint64_t version;       // of all code, when this code was last compared
  _Atomic uint64_t weight;
  atomic_int is_stale;
  uint32_t gpu_id, is_final;
  uint64_t *totals;               // executions of blocks by finished threads
  uint64_t reported;              // highest execution count at the last report
  const char *refusal;            // why there is no code
};
// Native code in a library, or NULL.
rpl_kernel drv_kernel_load(const char *path);
// The entry takes part in the search for hot blocks.
void drv_hot_add(struct entry *entry);
void drv_hot_forget(void);
#endif
