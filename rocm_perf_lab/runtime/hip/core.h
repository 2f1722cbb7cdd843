// Interfaces between the parts of the runtime's core; other parts use internal.h only.
#ifndef HIP_CORE_H
#define HIP_CORE_H
#include <linux/kfd_ioctl.h>

#include "internal.h"

// ---- driver.c ----
hipError_t hip_driver_open(void);

// ---- topology.c: a GPU as the files of the topology describe it ----
hipError_t hip_topology_read(struct hip_device *devices, int most, int *count);
void hip_properties_fill(struct hip_device *device);       // properties.c: device->properties, from the topology

struct hip_topology {             // the values of `properties` of one node that device properties need
  uint32_t simd_count, simd_per_cu, wave_front_size, max_waves_per_simd, lds_kib, array_count, cu_per_array, version, device_id;
  uint32_t location_id, domain, render_minor, clock_mhz, num_xcc, gws, l2_bytes, memory_bus_bits, memory_clock_mhz;
  uint64_t capability, unique_id, memory_bytes;
};
const struct hip_topology *hip_topology_of(const struct hip_device *device);

// ---- faults.c: a thread that ends the process after a memory fault or an error of a queue ----
int hip_faults_watch(void);       // starts it once; 0, or an errno
uint32_t hip_faults_queue_event(void);  // KFD event that queues raise with their inactive signal
void hip_faults_forget(void);
// A thread that receives no signals; detached if `joinable` is NULL. 0 or an errno.
int hip_thread_create(void *(*run)(void *), void *argument, pthread_t *joinable);

// ---- signals.c ----
hipError_t hip_signals_open(void);
uint64_t *hip_event_slot(uint32_t event_id);               // of the event page
int hip_kfd_event_create(uint32_t type, uint32_t *id);     // 0 or an errno

// ---- queues.c ----
enum { HIP_AQL_PACKET_BYTES = 64, HIP_KERNARG_BYTES = 1024 /* of the place of a packet */ };
struct hip_queue {
  struct hip_device *device;
  uint32_t users;                 // streams
  uint32_t id, sdma_id;
  uint8_t *ring, *sdma_ring;      // sdma_ring NULL: no copy so far
  struct hip_amd_queue *amd;      // read and write indexes among others
  uint64_t *sdma_indexes;         // [0] read, [8] write
  struct hip_signal *inactive;
  struct hip_pending_list {       // what packets refer to, oldest first
    struct hip_pending *items;
    uint64_t first, count, capacity;
  } pending, sdma_pending;
  uint8_t *kernargs;              // a place for arguments per packet
  uint64_t submitted;             // AQL packets so far
  void (*handler)(const void *packets, uint64_t count, uint64_t index, void *data, void (*writer)(const void *, uint64_t));  // tools.c
  void *handler_data;
  struct hip_queue *next;
};
hipError_t hip_queue_take(struct hip_device *device, struct hip_queue **result);
void hip_queue_give_back(struct hip_queue *queue);
struct hip_queue *hip_queues_first(void);
// Submission. The caller holds hip_streams_lock and has called hip_queue_has_room().
int hip_queue_has_room(struct hip_queue *queue, uint32_t packets, uint64_t sdma_bytes);
void *hip_queue_packet(struct hip_queue *queue);           // next free packet: zero, to be filled except for its first four bytes
void *hip_queue_kernarg(struct hip_queue *queue, uint64_t bytes);  // memory for the arguments of that packet; NULL: no memory
void hip_queue_submit(struct hip_queue *queue, uint16_t header, uint16_t setup);
void hip_queue_release(struct hip_queue *queue, uint32_t first_word);  // the next packet, whose other words are written
void hip_queue_advance(struct hip_queue *queue, uint64_t submitted);
uint64_t hip_queue_read_index(const struct hip_queue *queue);
// A packet that waits for all `dependencies` (up to 5); `completion` may be NULL. Keeps references.
void hip_queue_barrier(struct hip_queue *queue, struct hip_signal *const *dependencies, int count, struct hip_signal *completion);
// Until the newest packet is done: a reference to a signal that it completes.
void hip_queue_completes(struct hip_queue *queue, struct hip_signal *signal);
hipError_t hip_queue_open_sdma(struct hip_queue *queue);
void hip_sdma_write(struct hip_queue *queue, const uint32_t *words, uint32_t count);
void hip_sdma_ring(struct hip_queue *queue);               // everything written so far is submitted
enum hip_pending_kind { HIP_PENDING_DEPENDENCY, HIP_PENDING_COMPLETION, HIP_PENDING_PIN, HIP_PENDING_STAGE };
void hip_sdma_keep(struct hip_queue *queue, enum hip_pending_kind kind, uint64_t object);  // until all that was written is done
void hip_queue_reap(struct hip_queue *queue);              // releases what packets that are done referred to

// ---- staging.c: small pieces of memory that GPUs can access ----
void *hip_stage_take(uint64_t bytes);                      // NULL: no memory
void hip_stage_give_back(void *memory);
void hip_stage_forget(void);

// ---- streams.c, for execution ----
// Waits of `stream` for what the rules of the null stream require; called with hip_streams_lock held, before any work.
void hip_stream_implicit_waits(struct ihipStream_t *stream);
struct hip_signal *hip_stream_marker_locked(struct ihipStream_t *stream);  // no new reference
void hip_stream_submitted(struct ihipStream_t *stream);    // packets were written
void hip_stream_set_last(struct ihipStream_t *stream, struct hip_signal *signal);  // completed by the newest packet; takes the reference
int hip_streams_count(void);                               // with hip_streams_lock; its result bounds the packets of implicit waits
// Takes hip_streams_lock when the stream's queue has room for an operation.
hipError_t hip_stream_lock_for(struct ihipStream_t *stream, uint32_t packets, uint64_t sdma_bytes);
void hip_stream_unlock(void);

// ---- callbacks.c ----
void hip_callbacks_end(struct ihipStream_t *stream);       // of a stream without pending work

// ---- copies.c ----
hipError_t hip_execute_copy_direct(struct ihipStream_t *stream, const struct hip_copy *copy);  // by the engine of the stream's device
hipError_t hip_execute_copy(struct ihipStream_t *stream, const struct hip_copy *original);
hipError_t hip_execute_fill(struct ihipStream_t *stream, const struct hip_fill *original);
hipError_t hip_execute_write(struct ihipStream_t *stream, const struct hip_value *value);
int hip_copy_is_pageable(const struct hip_copy *copy);    // one side is memory that the runtime does not know

// ---- peer_copies.c ----
int hip_copy_needs_stage(const struct ihipStream_t *stream, const struct hip_copy *copy);  // its device cannot access one of both sides
hipError_t hip_copy_staged(struct ihipStream_t *stream, const struct hip_copy *copy);
hipError_t hip_fill_remote(struct ihipStream_t *stream, const struct hip_fill *fill);  // by the device that has the memory
void hip_peer_copies_forget(void);

// ---- launch.c ----
hipError_t hip_execute_kernel(struct ihipStream_t *stream, const struct hip_kernel_launch *launch);

// ---- events.c ----
hipError_t hip_event_record(struct ihipEvent_t *event, struct ihipStream_t *stream);
hipError_t hip_event_wait_stream(struct ihipEvent_t *event, struct ihipStream_t *stream);
// The event stands for a signal: its start, or its end.
void hip_event_set_signal(struct ihipEvent_t *event, struct hip_signal *signal, struct ihipStream_t *stream, int times_start);

// ---- virtual.c ----
void hip_virtual_forget(void);

// ---- pools.c ----
hipError_t hip_pool_execute_free(struct ihipStream_t *stream, const struct hip_stream_memory *memory);
hipError_t hip_pool_free_now(const struct hip_memory *block);  // of a pool, which no work uses any more
struct hip_device *hip_pool_device(const struct ihipMemPoolHandle_t *pool);  // NULL: there is no such pool
int hip_pool_is_shared_with(const struct ihipMemPoolHandle_t *pool, const struct hip_device *device);
void hip_pools_trim(struct hip_device *device);            // after synchronisation


// ---- memory.c, for the core ----
uint64_t hip_addresses_reserve(uint64_t bytes, uint64_t alignment);  // 0: no addresses
// Changes the description of the block that contains `address`; returns 0 if there is none.
int hip_memory_update(uint64_t address, void (*change)(struct hip_memory *block, const void *data), const void *data);
// Makes memory of the host accessible to all GPUs at its own address. 0 or an errno.
int hip_pin(const void *address, uint64_t bytes, uint64_t *handle);
void hip_unpin(uint64_t handle);
hipError_t hip_memory_register_host(void *address, uint64_t bytes, unsigned flags);
hipError_t hip_memory_share(const struct hip_memory *block, uint32_t share[4]);
hipError_t hip_memory_open_shared(const uint32_t share[4], struct hip_device *device, uint64_t bytes, struct hip_memory *result);
// Whether a device can access memory: the host's, its own, or that of a device that it was given access to.
int hip_memory_is_accessible(const struct hip_device *device, uint64_t address);
// Gives `device` access to the memory of another one (of one pool only, if that is not NULL), or takes it away.
void hip_memory_share_with(const struct hip_device *owner, const struct ihipMemPoolHandle_t *pool, const struct hip_device *device, int allows);
int hip_memory_is_own_share(const uint32_t share[4]);      // of this process
void hip_memory_free_of(struct hip_device *device);        // what the application allocated on a device
void hip_memory_add_virtual(uint64_t address, uint64_t bytes, struct hip_device *device);
void hip_memory_remove_virtual(uint64_t address);
#endif
