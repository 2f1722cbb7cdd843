// HIP runtime of rocm-perf-lab: what its parts know of each other.
//
// The library has the interface of AMD's libamdhip64 and runs on the emulated kernel driver (runtime/driver), which is preloaded into
// the same process: it opens /dev/kfd, creates user-mode queues and writes packets into them. Only functions marked HIP_API are exported.
// Inside the library call the internal functions below and never the exported hip* functions: the driver replaces those to check the
// application's calls.
//
// Every asynchronous operation is a `struct hip_operation`. hip_enqueue() executes it on a stream, or hands it to the graph that the
// stream is being captured into (hip_capture_add in graph.c); a graph's nodes hold the same structure and are executed by hip_execute().
#ifndef HIP_INTERNAL_H
#define HIP_INTERNAL_H
#define __HIP_PLATFORM_AMD__ 1  // NOLINT(bugprone-reserved-identifier): the headers require it
#define HIP_ENABLE_WARP_SYNC_BUILTINS 0
#include <hip/hip_runtime_api.h>
#include <hip/hip_deprecated.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define HIP_API __attribute__((visibility("default")))
enum { HIP_MAX_DEVICES = 16, HIP_PAGE_BYTES = 4096, HIP_TICK_NS = 10 /* of the GPU's counter */ };

// ---- errors.c: the last error of each thread ----
// Stores `error` as the last error of this thread unless it is hipSuccess or hipErrorNotReady; returns `error`.
hipError_t hip_set_error(hipError_t error);
// Every exported function: `HIP_API hipError_t hipFoo(...) { HIP_ENTER(); ... HIP_RETURN(error); }`. HIP_ENTER initialises the
// library (once, and again in a child after fork()); without a device it returns hipErrorNoDevice from the function.
#define HIP_RETURN(error) return hip_set_error(error)
#define HIP_ENTER()                          \
  do {                                       \
    hipError_t enter_error_ = hip_initialize(); \
    if (enter_error_ != hipSuccess) HIP_RETURN(enter_error_); \
  } while (0)
// hipSuccess unless `call` fails: then returns its error from the (internal) function.
#define HIP_TRY(call)                        \
  do {                                       \
    hipError_t try_error_ = (call);          \
    if (try_error_ != hipSuccess) return try_error_; \
  } while (0)
// One line on standard error: "rocm-perf-lab HIP: ...".
void hip_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- driver.c: KFD, and the functions that the preloaded driver exports ----
struct iovec;
int hip_kfd(unsigned long request, void *arguments);       // ioctl on /dev/kfd: 0 or an errno
// Asks the translation service (kinds in runtime/driver/service.h). Returns the kind of the answer, whose content the caller frees with
// free(); 0: no service.
uint32_t hip_ask_service(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes);
void hip_announce_code(const void *elf, uint64_t bytes);   // an ELF file that is being loaded, for names and source lines
void hip_ring_driver(void);                                // a doorbell was rung
// Checks of the driver: whether the nodes of the graph that this thread launches are looked at, what belongs to a node (one bit per earlier
// node that it depends on, directly or not), and arguments of a launch that the application left out.
enum { HIP_WATCHED_NODES = 256, HIP_NODE_WORDS = HIP_WATCHED_NODES / 64 };
int hip_driver_watches_graph(void);
void hip_driver_begin_node(uint32_t node, const uint64_t ancestors[HIP_NODE_WORDS]);
void hip_driver_node_accesses(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, int writes);
void hip_driver_end_node(void);
void hip_driver_short_arguments(uint64_t bytes, uint64_t wanted);

// ---- device.c ----
struct hip_device {
  int index;
  uint32_t gpu_id, node, render_minor;
  int render_fd;
  char isa[64];                   // "gfx942:sramecc+:xnack-"
  char architecture[16];          // "gfx942"
  uint32_t compute_units, wave_size, lds_bytes, simds_per_cu, max_waves_per_simd, xccs;
  uint32_t peers;                 // bit per device whose memory this device was given access to
  unsigned flags;                 // hipSetDeviceFlags
  atomic_int is_primary_retained;
  uint64_t memory_bytes;
  hipDeviceProp_tR0600 properties;
  struct ihipStream_t *null_stream;
  struct ihipMemPoolHandle_t *default_pool, *pool;  // pool: the current one
};
// Counts the initialisations of this process: 0 before the first; increased in a child after fork(), which starts anew. State that
// refers to devices (loaded modules, heaps) is valid only if the generation under which it was made is still the same.
extern atomic_uint hip_generation;
hipError_t hip_initialize(void);                           // lazily, thread-safe; cheap once done
int hip_device_count(void);
struct hip_device *hip_device_at(int index);               // NULL: no such device
struct hip_device *hip_current_device(void);               // of this thread
hipError_t hip_set_current_device(int index);
hipError_t hip_device_synchronize(struct hip_device *device);  // waits for all streams of a device

// ---- memory.c: blocks of memory, and which block contains a pointer ----
enum hip_memory_kind {
  HIP_MEMORY_DEVICE = 1, HIP_MEMORY_HOST /* hipHostMalloc */, HIP_MEMORY_MANAGED, HIP_MEMORY_REGISTERED /* the host's own */,
  HIP_MEMORY_VIRTUAL /* mapped by hipMemMap */, HIP_MEMORY_IPC /* of another process */, HIP_MEMORY_INTERNAL /* the runtime's own */
};
struct hip_memory {
  uint64_t address, size;         // size: as requested
  uint64_t mapped_size;           // whole pages
  enum hip_memory_kind kind;
  struct hip_device *device;
  unsigned flags;                 // of the call that allocated it
  uint64_t handle;                // KFD's; 0: none
  struct ihipMemPoolHandle_t *pool;  // it came from hipMallocAsync
  void *host_address;             // of registered memory
  uint64_t id;                    // unique, hipPointerAttribute buffer id
  int is_symbol;                  // part of a loaded module: not to be freed by hipFree
  hipMemLocation preferred;       // hipMemAdvise, of managed memory
  int is_read_mostly, prefetched; // prefetched: device, or hipCpuDeviceId, hipInvalidDeviceId
};
// Allocates and maps to all devices; the address is the same for the host and the GPUs. `alignment` 0: a page (2 MiB for large blocks).
// Content is zero. hipErrorOutOfMemory if it does not fit.
hipError_t hip_memory_allocate(struct hip_device *device, enum hip_memory_kind kind, uint64_t bytes, uint64_t alignment, unsigned flags,
                               struct hip_memory *result);
hipError_t hip_memory_free(uint64_t address);              // no waiting: the caller synchronises
// A flag of memory that holds a loaded module: hipDeviceReset() does not free it.
#define HIP_MEMORY_OF_MODULE 0x40000000u
#define HIP_MEMORY_OF_OTHER_POOL 0x20000000u   // opened by hipMemPoolImportPointer(), freed by hipFree()
// Copies the description of the block that contains `address`; returns 0 if there is none (pageable memory of the host, or invalid).
int hip_memory_find(const void *address, struct hip_memory *result);
// Makes [address, address + bytes) of another block known as a block of its own kind (managed variables, module images): for pointer
// queries only. hip_memory_forget() removes it.
hipError_t hip_memory_register_symbol(uint64_t address, uint64_t bytes, enum hip_memory_kind kind, struct hip_device *device);
void hip_memory_forget(uint64_t address);

// ---- signals.c: 64-bit counters that packets complete, with times ----
// The layout of amd_signal_t; it lies in memory that the GPUs can access, and kernels may change `value` (hostcall doorbells).
struct hip_signal {
  int64_t kind;
  _Atomic int64_t value;
  uint64_t event_mailbox;
  uint32_t event_id, reserved1;
  uint64_t start_ticks, end_ticks;
  uint64_t queue, reserved2;
  atomic_int references;          // the rest is not part of AMD's layout
  struct hip_signal *next_free;
  uint64_t reserved3[6];
};
// A signal with the given value and one reference; its KFD event is shared by some signals. NULL: no memory.
struct hip_signal *hip_signal_create(int64_t value);
void hip_signal_hold(struct hip_signal *signal);
void hip_signal_release(struct hip_signal *signal);        // NULL is allowed
int64_t hip_signal_load(const struct hip_signal *signal);
void hip_signal_store(struct hip_signal *signal, int64_t value);  // by the host: wakes waiters on the host and in queues
void hip_signal_wait(struct hip_signal *signal);           // sleeps until the value is 0 (or less)
void hip_signal_wait_change(struct hip_signal *signal, int64_t value);  // sleeps until the value differs from `value`

// ---- functions (kernels) on one device, made by module.c ----
enum hip_hidden {                 // of an argument; the value is stored by hip_fill_hidden() in module.c
  HIP_ARGUMENT_EXPLICIT = 0, HIP_HIDDEN_BLOCK_COUNT_X, HIP_HIDDEN_BLOCK_COUNT_Y, HIP_HIDDEN_BLOCK_COUNT_Z, HIP_HIDDEN_GROUP_SIZE_X,
  HIP_HIDDEN_GROUP_SIZE_Y, HIP_HIDDEN_GROUP_SIZE_Z, HIP_HIDDEN_REMAINDER_X, HIP_HIDDEN_REMAINDER_Y, HIP_HIDDEN_REMAINDER_Z,
  HIP_HIDDEN_GLOBAL_OFFSET_X, HIP_HIDDEN_GLOBAL_OFFSET_Y, HIP_HIDDEN_GLOBAL_OFFSET_Z, HIP_HIDDEN_GRID_DIMS, HIP_HIDDEN_PRINTF_BUFFER,
  HIP_HIDDEN_HOSTCALL_BUFFER, HIP_HIDDEN_MULTIGRID_SYNC, HIP_HIDDEN_HEAP, HIP_HIDDEN_DEFAULT_QUEUE, HIP_HIDDEN_COMPLETION_ACTION,
  HIP_HIDDEN_DYNAMIC_LDS_SIZE, HIP_HIDDEN_PRIVATE_BASE, HIP_HIDDEN_SHARED_BASE, HIP_HIDDEN_QUEUE_POINTER, HIP_HIDDEN_NONE
};
struct hip_argument { uint32_t offset, size; enum hip_hidden hidden; };
struct ihipModuleSymbol_t {       // *hipFunction_t
  struct ihipModule_t *module;
  struct hip_device *device;
  const char *name;
  uint64_t descriptor;            // address of the kernel descriptor: kernel_object of the packet
  uint32_t kernarg_bytes, kernarg_alignment;
  uint32_t static_lds_bytes, private_bytes;
  uint32_t max_workgroup;         // max_flat_workgroup_size of the metadata
  uint32_t required_workgroup[3]; // 0: any
  uint32_t vgprs, agprs, sgprs, sgpr_spills, vgpr_spills, wave_size;
  uint32_t explicit_count, argument_count;
  const struct hip_argument *arguments;  // explicit ones first
  int max_dynamic_lds;            // hipFuncSetAttribute
  int uses_dynamic_stack, is_cooperative_capable, is_uniform;  // is_uniform: work-items are a multiple of the workgroup
};

// ---- streams.c ----
struct hip_graph_capture;         // graph.c
struct hip_queue;                 // queues.c: a compute queue, and the copy queue next to it
struct ihipStream_t {             // *hipStream_t
  struct hip_device *device;
  unsigned flags;                 // hipStreamNonBlocking
  int priority;
  int is_null, is_per_thread;
  struct hip_queue *queue;
  struct hip_signal *last;        // completed when all that was submitted so far is complete; NULL: nothing is pending
  int is_dirty;                   // packets were submitted after `last`
  struct hip_callbacks *callbacks;  // thread for callbacks, made at the first one
  struct hip_graph_capture *capture;  // not NULL: being captured; changed by graph.c under hip_streams_lock
  uint64_t id;
  struct ihipStream_t *next;
};
// Protects lists of streams and submission. Recursive calls are not allowed; it is never held while waiting for the GPU.
extern pthread_mutex_t hip_streams_lock;
// The stream that an application's handle means: NULL and hipStreamLegacy are the null stream of the current device, hipStreamPerThread
// the thread's own. hipErrorInvalidHandle (hipErrorContextIsDestroyed as in AMD's runtime) for an unknown handle.
hipError_t hip_stream_of(hipStream_t handle, struct ihipStream_t **stream);
hipError_t hip_stream_create(struct hip_device *device, unsigned flags, int priority, struct ihipStream_t **stream);
hipError_t hip_stream_destroy(struct ihipStream_t *stream);
hipError_t hip_stream_synchronize(struct ihipStream_t *stream);
hipError_t hip_stream_query(struct ihipStream_t *stream);  // hipSuccess or hipErrorNotReady
// A signal (with a reference; NULL: nothing is pending) that is complete when all that was submitted to the stream so far is.
struct hip_signal *hip_stream_marker(struct ihipStream_t *stream);

// ---- operations ----
enum hip_operation_kind {
  HIP_OPERATION_KERNEL = 1, HIP_OPERATION_COPY, HIP_OPERATION_FILL, HIP_OPERATION_HOST, HIP_OPERATION_RECORD, HIP_OPERATION_WAIT,
  HIP_OPERATION_WAIT_VALUE, HIP_OPERATION_WRITE_VALUE, HIP_OPERATION_ALLOCATE, HIP_OPERATION_FREE, HIP_OPERATION_EMPTY
};
struct hip_kernel_launch {
  struct ihipModuleSymbol_t *function;
  uint32_t grid[3], block[3];     // grid: workgroups; work-items of the grid: `items` if it is not a multiple of the block
  uint32_t items[3];              // work-items; 0: grid * block
  uint32_t dynamic_lds_bytes;
  void *kernarg;                  // explicit and hidden arguments; copied when the operation is executed
  uint64_t kernarg_bytes;
  struct ihipEvent_t *start, *stop;  // hipExtLaunchKernel: times of this kernel; may be NULL
  int is_cooperative;
};
struct hip_box {                  // one side of a copy or fill: rows of `width` bytes
  uint64_t address, pitch, slice; // slice: bytes from one plane to the next
};
struct hip_copy {
  struct hip_box to, from;
  uint64_t width, height, depth;  // bytes, rows, planes; 1 x 1 for a linear copy
  hipMemcpyKind kind;
};
struct hip_fill {
  struct hip_box to;
  uint64_t width, height, depth;  // width in bytes
  uint32_t value, unit;           // 1, 2 or 4 bytes
};
struct hip_host_call { void (*run)(void *data); void *data; };
struct hip_value {                // hipStreamWaitValue, hipStreamWriteValue
  uint64_t address, value, mask;
  uint32_t bytes, condition;      // 4 or 8; hipStreamWaitValueGte ...
};
struct hip_stream_memory {        // hipMallocAsync, hipFreeAsync
  uint64_t address, bytes;
  struct ihipMemPoolHandle_t *pool;
};
struct hip_operation {
  enum hip_operation_kind kind;
  union {
    struct hip_kernel_launch kernel;
    struct hip_copy copy;
    struct hip_fill fill;
    struct hip_host_call host;
    struct { struct ihipEvent_t *event; unsigned flags; } event;  // RECORD, WAIT
    struct hip_value value;
    struct hip_stream_memory memory;
  };
};
// For exported functions: records the operation if the stream is being captured, else executes it.
hipError_t hip_enqueue(struct ihipStream_t *stream, const struct hip_operation *operation);
// Executes it now (asynchronously). Memory that it refers to is the caller's until the stream has passed it, except `kernarg`.
hipError_t hip_execute(struct ihipStream_t *stream, const struct hip_operation *operation);
// Waits for a signal before later work of the stream; keeps a reference until then.
hipError_t hip_stream_wait_signal(struct ihipStream_t *stream, struct hip_signal *signal);
// Calls `run` on a thread of the runtime once all earlier work of the stream is complete; later work waits for its return.
hipError_t hip_stream_callback(struct ihipStream_t *stream, void (*run)(void *data), void *data);
// Copies and fills that return when they are complete; any addresses, pageable ones too. `stream` is ordered before it.
hipError_t hip_copy_now(struct ihipStream_t *stream, void *to, const void *from, uint64_t bytes, hipMemcpyKind kind);
hipError_t hip_fill_now(struct ihipStream_t *stream, void *to, uint32_t value, uint32_t unit, uint64_t bytes);
// graph.c: adds an operation of a captured stream to its graph; hipErrorStreamCaptureInvalidated and so on.
hipError_t hip_capture_add(struct ihipStream_t *stream, const struct hip_operation *operation);
// graph.c: hipStreamWaitEvent for an event that was recorded into a graph under construction (event->capture).
hipError_t hip_capture_wait(struct ihipStream_t *stream, struct ihipEvent_t *event);
// capture.c: the event no longer stands for work of a graph.
void hip_capture_forget_event(struct ihipEvent_t *event);
// graph.c: error of a call that is not allowed while some stream is being captured (synchronous calls in global mode), else hipSuccess.
hipError_t hip_capture_forbids(struct ihipStream_t *stream /* NULL: calls that concern the device */);

// ---- module.c and hostcall.c: called by launch.c of the core ----
// Fills the hidden arguments of a launch in `kernarg` (already copied, at its final place). Called with hip_streams_lock held.
void hip_fill_hidden(const struct hip_kernel_launch *launch, void *kernarg, uint64_t amd_queue, struct ihipStream_t *stream);

// ---- events.c ----
struct ihipEvent_t {              // *hipEvent_t
  struct hip_device *device;
  unsigned flags;
  struct hip_signal *signal;      // of the last record; NULL: not recorded
  int was_recorded;
  struct ihipStream_t *stream;    // of the last record
  uint64_t captured_node;         // graph.c: the event was recorded into a graph
  struct hip_graph_capture *capture;
  struct hip_event_share *share;  // hipEventInterprocess
  int times_kernel;               // start event of hipExtLaunchKernel: its time is the start of the signal
  struct ihipEvent_t *next;
};
// hipErrorInvalidHandle if it is not an event.
hipError_t hip_event_of(hipEvent_t handle, struct ihipEvent_t **event);
hipError_t hip_event_wait_host(struct ihipEvent_t *event);

// ---- pools.c ----
struct ihipMemPoolHandle_t *hip_default_pool(struct hip_device *device);

// ---- after fork(), in the child: forget all state (fork.c calls them) ----
void hip_streams_forget(void);
void hip_memory_forget_all(void);
void hip_signals_forget(void);
void hip_queues_forget(void);
void hip_events_forget(void);
void hip_pools_forget(void);
void hip_devices_forget(void);
void hip_driver_forget(void);
void hip_modules_forget(void);    // module.c
void hip_graphs_forget(void);     // graph.c
#endif
