// Emulated kernel driver (KFD, DRM) inside an application: what its parts know of each other.
//
// The library is preloaded into the application. AMD's runtime opens /dev/kfd, allocates memory and creates queues through it;
// threads of this library read the queues and execute their packets in the application's own address space, with the emulator's
// C runtime. Code is translated by the service process that started the application (see service.h), over a private socket.
#ifndef RPL_DRIVER_H
#define RPL_DRIVER_H
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include "../../emulator/runtime/machine.h"

#define RPL_EXPORT __attribute__((visibility("default")))
enum { RPL_MAX_GPUS = 16, RPL_FIRST_GPU_ID = 0x4242 };

// ---- settings.c: the file `settings` in the session directory, which the environment variable RPL_SESSION names ----
struct drv_gpu {
  uint32_t gpu_id, node;          // node 0 is the CPU
  uint32_t render_minor;
  uint32_t device_id, family_id;
  uint32_t compute_units, xcds, wave_size;
  uint32_t clock_mhz, memory_clock_mhz;
  uint32_t xnack;                 // can recover from page faults: the mode is set per process
  uint32_t vector_line_bytes;     // of the vector L1: 64 or 128 (gpu.i.vector_line_bytes; default 128)
  uint32_t lds_bytes;             // a workgroup may use
  uint32_t launch_ns;             // duration of an empty dispatch; 0: the GPU has no timing model, and dispatches no times
  uint32_t memory_gb_per_s;       // achieved by kernels
  uint64_t memory_bytes;
  char architecture[16], name[64];
};
struct drv_settings {
  char session[256];              // private directory: sys/ (tree of topology files), service.sock
  uint32_t gpu_count;
  struct drv_gpu gpus[RPL_MAX_GPUS];
  uint32_t threads;               // per dispatch
  uint32_t any_order;             // kernels whose results depend on the order of workgroups use several threads too
  int64_t max_instructions;       // of one dispatch; 0: no limit
  uint32_t max_seconds;           // of one dispatch, wall time; 0: no limit
  uint32_t heartbeat_seconds;     // print a line about a dispatch that runs longer; 0: never
  uint32_t records;               // write a record of every dispatch, with durations of the timing model; else these are rough
  uint64_t record_first, record_end, record_every;  // dispatches of a process with counts and estimates, from 0; record_end 0: all
  uint32_t trace;                 // 0..3: log of the driver's calls on stderr
  uint32_t checks;                // enum drv_check (findings.h)
};
// NULL in a process without a session: every interposed function then only forwards.
const struct drv_settings *drv_settings(void);
const struct drv_gpu *drv_gpu_of_id(uint32_t gpu_id);
int drv_gpu_index(uint32_t gpu_id);                   // -1: unknown
void drv_log(uint32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
// One line (or several, separated by newlines) on stderr, written at once.
void drv_say(const char *text);

// ---- ranges.c, memory.c: address ranges that GPUs can access ----
// A snapshot of the ranges of one GPU, sorted by address; valid until it is put back. Changes create a new snapshot.
struct drv_ranges {
  atomic_long users;
  uint64_t version, count;
  uint32_t gpu;                   // index
  struct rpl_allocation ranges[];
};
const struct drv_ranges *drv_ranges_get(uint32_t gpu /* index */);
const struct drv_ranges *drv_ranges_keep(const struct drv_ranges *ranges);
void drv_ranges_put(const struct drv_ranges *ranges);
// Version of the newest snapshot, to see cheaply whether it changed.
uint64_t drv_ranges_version(uint32_t gpu);
void drv_ranges_protected(uint64_t begin, uint64_t end, int is_read_only);   // the host changed the protection of its memory
int drv_ranges_look_again(uint32_t gpu, uint64_t address);  // whether memory that was read-only for the host is so no more
// With XNACK: makes the mapping of the host's memory that contains `address` accessible. Returns whether there is one.
int drv_memory_fault_in(uint64_t address);
// The block of device memory that contains `address`: where it begins, its size, and its offset in the memory file.
// Returns 0 if there is none.
struct drv_block_place { uint64_t address, size, offset; uint32_t gpu_id, is_vram /* not the host's memory */; };
int drv_memory_block(uint64_t address, struct drv_block_place *place);
int drv_memory_file(void);        // descriptor of the sparse file that holds device memory

// ---- events.c ----
void drv_event_set(uint32_t event_id);
// Looks for events that kernels signalled by themselves: a store to the event page and S_SENDMSG.
int drv_events_scan(void);
// Raises the memory exception of a GPU: the runtime reports it and aborts.
void drv_event_memory_fault(uint32_t gpu_id, uint64_t address, int not_present, int read_only);
void drv_event_hardware_exception(uint32_t gpu_id, int reset_cause);

// ---- clocks.c ----
enum { RPL_TICK_NS = 10 };        // the counter of the GPU runs at 100 MHz
uint64_t drv_ticks(void);         // CLOCK_BOOTTIME in ticks
uint64_t drv_nanoseconds(void);   // CLOCK_BOOTTIME

// ---- queues.c ----
struct kfd_ioctl_create_queue_args;
// Start and stop the thread of a queue. 0 or an errno. Destroying waits for the thread.
int drv_queue_create(struct kfd_ioctl_create_queue_args *args, uint64_t *doorbell);
int drv_queue_destroy(uint32_t queue_id);
int drv_queue_update(uint32_t queue_id, uint64_t ring, uint64_t ring_bytes, uint32_t percentage);
void drv_queues_wake(void);       // a doorbell was rung
void drv_queues_forget(void);     // in the child after fork(): the threads do not exist

// ---- kernels.c: translated kernels by address of their descriptor ----
struct drv_kernel {
  uint64_t object;                // address of the descriptor
  uint32_t id;                    // of the service
  uint32_t block_count, probe_count;
  uint32_t vgpr_rows, agpr_rows;
  uint32_t depends_on_order;
  uint32_t wave_size, mode;
  uint32_t system_sgprs, work_item_id_dims, work_item_id_rows;
  uint32_t static_scratch_bytes, static_lds_bytes, kernarg_bytes;
  uint32_t properties;            // kernel_code_properties
  uint32_t user_sgprs;            // declared
  uint32_t preload_offset, preload_dwords;
  uint32_t cooperative;           // as in struct rpl_kernel_answer
  uint64_t load_address;          // added to addresses of the code object
  _Atomic(rpl_kernel) code;       // best native code so far
  const char *name;
};
// Returns the kernel, translated at its first use; NULL with a message in `error`.
const struct drv_kernel *drv_kernel_of(uint32_t gpu_id, uint64_t object, char *error, uint64_t error_bytes);

// ---- timing.c: emulated durations, and the file of records that `rocm-perf profile` reads ----
// What the timing model and the records need to know about one dispatch while it runs.
struct drv_timing;
// Sums over the threads of a dispatch.
struct drv_work {
  const uint64_t *executions, *active_lanes;  // [block_count]
  const struct rpl_counters *counters;
  uint64_t instructions;          // of all wavefronts
};
// Before a dispatch. If the service has to estimate its duration (only with records), sets `launch`'s sampled workgroups, traces and counts, which all
// threads share. Never fails: a dispatch without memory for traces is not traced.
struct drv_timing *drv_timing_begin(const struct drv_kernel *kernel, uint32_t gpu_id, uint32_t queue_id, struct rpl_launch *launch,
                                    const struct drv_ranges *ranges, uint32_t threads);
// Buffers of one thread: machine->footprint, run and has_half_lines.
void drv_timing_thread(struct drv_timing *timing, uint32_t thread, struct rpl_machine *machine);
// After the last workgroup: emulated duration in ns. `work` is NULL if the dispatch failed.
uint64_t drv_timing_end(struct drv_timing *timing, uint64_t dispatch_number, const struct drv_work *work);
// Writes the record of the dispatch, once its place on the timeline of the queue is known, and frees `timing` (NULL is allowed).
// Without records, frees only.
void drv_timing_record(struct drv_timing *timing, uint64_t submitted_ns, uint64_t start_ns, uint64_t end_ns);
// Writes the record of a copy by an SDMA queue.
void drv_timing_record_copy(uint32_t gpu_id, uint32_t queue_id, uint64_t from, uint64_t to, uint64_t bytes, uint64_t start_ns,
                            uint64_t end_ns);
void drv_timing_forget(void);     // in the child after fork(): a file of its own, and its own connection

// ---- service.c: the client of the translation service ----
struct iovec;
// Sends a message that consists of `parts` and waits for the answer. Returns the kind of the answer, whose content (`bytes` bytes) the
// caller frees; 0 if the service is gone or memory is short.
int drv_service_is_busy(void);    // with a question, such as for the translation of a kernel
uint32_t drv_service_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes);

// ---- dispatch.c ----
struct hsa_kernel_dispatch_packet_s;
struct drv_outcome {
  uint32_t failed;                // 0, or enum drv_failure
  uint64_t address;               // of a memory fault
  uint64_t duration_ns;           // emulated
  struct drv_timing *timing;      // for drv_timing_record
};
enum drv_failure {
  RPL_FAILED_MEMORY = 1, RPL_FAILED_ILLEGAL, RPL_FAILED_TRAP, RPL_FAILED_LIMIT, RPL_FAILED_TRANSLATION, RPL_FAILED_LDS,
  RPL_FAILED_DIMENSIONS, RPL_FAILED_WORKGROUP, RPL_FAILED_LDS_SIZE /* impossible packets */, RPL_FAILED_STOPPED /* with its queue */,
  RPL_FAILED_READ_ONLY
};
// Resources of global wave sync (kfd.c), or NULL if the queue has none: the kernel driver assigns them to one queue.
uint64_t *drv_queue_wave_syncs(uint32_t queue_id);
struct drv_queue_info { uint32_t queue_id, gpu_id; uint64_t amd_queue; };
// Runs a kernel to its end on this thread and the pool's.
void drv_dispatch(const struct drv_queue_info *queue, const struct hsa_kernel_dispatch_packet_s *packet, uint64_t packet_address,
                  uint64_t dispatch_number, const atomic_int *stop, struct drv_outcome *outcome);
#endif
