// Packets of the Architected Queuing Language.
#ifndef RPL_AQL_H
#define RPL_AQL_H
#include "execution.h"

struct drv_aql {
  uint8_t *ring;
  uint64_t packets;               // in the ring
  uint64_t read;                  // number of the next packet
  uint64_t *read_index;           // of the application; in amd_queue_t
  uint32_t gpu_id, queue_id;
  uint64_t save_area;             // begins with where to report exceptions; 0: nowhere
  const atomic_int *stop;
  uint64_t now_ns;                // end of the previous packet on the emulated timeline
  int has_failed;                 // the queue executes nothing more
  struct drv_view view;
};
// Whether the next packet is complete.
int drv_aql_ready(const struct drv_aql *aql);
// Executes the next packet.
void drv_aql_execute(struct drv_aql *aql);
#endif
