// Which operations of the application's streams happen before which others, by vector clocks, and races between those that are not
// ordered. The host is one clock: threads of the host synchronise in ways that are not seen here.
#ifndef RPL_ORDER_H
#define RPL_ORDER_H
#include <stdatomic.h>
#include <stdint.h>
#include "driver.h"

enum { RPL_CLOCK_STREAMS = 64 };  // more streams at a time share the last clock, so that they count as ordered
enum { RPL_NODE_WORDS = 4 };
struct drv_clock { uint32_t at[RPL_CLOCK_STREAMS]; };
// An operation in a stream: a launch, a copy, a graph.
struct drv_op {
  atomic_int users;
  uint32_t stream, number;        // happens before what has at least `number` in its clock for the stream
  uint64_t call;                  // number of the call of the host, in the order of all
  uint64_t site;
  const char *what;               // for the user: "the copy"
  struct drv_clock clock;
  // A node of a graph: number of the launch (0: none), of the node, and the nodes that it depends on.
  uint64_t graph_launch, ancestors[RPL_NODE_WORDS];
  uint32_t node;
};
// Part of memory that an operation of known extent accesses.
struct drv_extent { uint64_t address, bytes, rows, pitch; int writes; };

// ---- streams; `device` is the current one, which counts for the null stream ----
void drv_order_stream_created(void *handle, int device, int is_blocking);
void drv_order_stream_destroyed(void *handle);
// A new operation at the end of a stream; drv_order_put() gives it back. NULL without checks of races.
struct drv_op *drv_order_add(void *handle, int device, uint64_t site, const char *what);
void drv_order_put(struct drv_op *op);
// What a copy or fill accesses.
void drv_order_accesses(struct drv_op *op, const struct drv_extent *extents, int count);
// The host waited for a stream; NULL: for the null stream.
void drv_order_host_waits(void *handle, int device);
void drv_order_host_waits_for_device(int device);   // -1: for all
void drv_order_event_recorded(void *handle, void *stream, int device);
void drv_order_event_destroyed(void *handle);
void drv_order_stream_waits(void *stream, int device, void *handle);
// A stream waits for something that is not known, or memory is reused by the runtime: it is ordered behind all.
void drv_order_stream_waits_for_all(void *stream, int device);
void drv_order_host_waits_for_event(void *handle);
// The clock of a stream now, and the host learns of it: for callbacks.
void drv_order_clock_of(void *handle, int device, struct drv_clock *clock);
void drv_order_host_learns(const struct drv_clock *clock);
void drv_order_forget(void);

// ---- packets: which operation a dispatch belongs to ----
// The operation of the calls that this thread makes now; returns the earlier one. A reference stays with the caller.
struct drv_op *drv_order_set_current(struct drv_op *op, uint64_t site);
int drv_order_has_current(void);
uint64_t drv_order_current_site(void);
// Until drv_order_end_node(), the current operation is a node of the graph that was the current operation.
void drv_order_begin_node(uint32_t node, const uint64_t ancestors[RPL_NODE_WORDS]);
void drv_order_node_accesses(const struct drv_extent *extent);
void drv_order_end_node(void);
// The thread reserved packets of a queue.
void drv_order_packets(uint64_t amd_queue, uint64_t first, uint64_t count);
// The operation (with a reference, or NULL) and the launch site of a packet.
struct drv_op *drv_order_of_packet(uint64_t amd_queue, uint64_t number, uint64_t *site);
struct drv_touched;
// A dispatch ended: reports its races; takes `touched`.
void drv_order_dispatched(const struct drv_op *op, const struct drv_kernel *kernel, struct drv_touched *touched);
#endif
