// Interfaces between the parts of the driver that execute packets.
#ifndef RPL_EXECUTION_H
#define RPL_EXECUTION_H
#include <pthread.h>
#include "driver.h"
#include "packets.h"

// ---- service.c ----
void drv_say_answer(char *text);  // a text of the service: changes its end
void drv_service_forget(void);    // in the child after fork(): connections belong to the parent

// ---- kernels.c ----
// One thread that runs a kernel: counts for the choice of the blocks to optimise, and the launch that continues in better code.
struct drv_running {
  struct drv_running *next, **link;
  const struct drv_kernel *kernel;
  struct rpl_launch *launch;
  const uint64_t *executions;
};
void drv_kernel_begin(struct drv_running *running);
void drv_kernel_end(struct drv_running *running);
// Code in device memory may have changed.
void drv_kernels_invalidate(void);
void drv_kernels_forget(void);
// Instructions per workgroup of earlier dispatches, 0 if there were none.
uint64_t drv_kernel_weight(const struct drv_kernel *kernel);
void drv_kernel_weigh(const struct drv_kernel *kernel, uint64_t instructions_per_workgroup);

// ---- elf_files.c: code objects as the application loaded them ----
void drv_elf_add(const void *code, uint64_t bytes);
void drv_elf_add_file(int file);
// The ELF file whose image in device memory contains `address`; `*bytes` is its size. NULL if it was not seen. It stays valid until
// drv_elf_put(), which every call needs.
const void *drv_elf_get(const struct drv_block_place *block, uint64_t address, uint64_t *bytes);
void drv_elf_put(void);
// A variable of a code object in device memory (__device__, __constant__), or the gap behind one: [begin, end).
struct drv_variable { uint64_t begin, end, bytes /* of the variable */; int is_between; char name[64]; };
// Returns 0 if the address is neither, or if that is not known.
int drv_elf_variable(const struct drv_block_place *block, uint64_t address, struct drv_variable *variable);
void drv_elf_forget(void);

// ---- pool.c: threads that help with large dispatches and copies ----
struct drv_task {
  void (*work)(struct drv_task *task);
  struct drv_task *next;
  uint32_t wanted, running;
};
// Lets up to `helpers` threads call task->work(task), soon.
void drv_pool_invite(struct drv_task *task, uint32_t helpers);
// No further helper begins; waits for those that did.
void drv_pool_finish(struct drv_task *task);
void drv_pool_forget(void);
// Creates a detached thread that receives no signals. 0, or an errno.
int drv_thread_create(void *(*run)(void *), void *argument);
int drv_joinable_thread_create(pthread_t *thread, void *(*run)(void *), void *argument);
// Copies memory, several threads copying parts of large blocks. The blocks may overlap.
void drv_copy(void *to, const void *from, uint64_t bytes);

// ---- monitor.c: watches running dispatches ----
struct drv_watched {
  struct drv_watched *next, **link;
  const char *kernel;
  uint32_t queue_id, gpu;         // gpu: its index
  uint64_t number, workgroups, started_ns, said_ns;
  const int64_t *budget;
  int64_t first_budget;
  const _Atomic uint64_t *begun;  // workgroups
  const atomic_int *queue_stop;
  int stop;                       // set: the dispatch has to end, why: enum drv_stop
};
enum drv_stop { RPL_STOP_QUEUE = 1, RPL_STOP_LIMIT, RPL_STOP_FAULT };
void drv_watch_begin(struct drv_watched *watched);
void drv_watch_end(struct drv_watched *watched);
void drv_watch_queues(void);      // a queue was created
void drv_watch_forget(void);

// ---- view.c ----
// Looks whether the GPU can access [low, high); refreshes its view of memory. The machine belongs to one thread.
struct drv_view {
  struct rpl_machine machine;
  const struct drv_ranges *ranges;
  uint32_t gpu;                   // index
};
void drv_view_refresh(struct drv_view *view);
int drv_view_has(struct drv_view *view, uint64_t low, uint64_t high);
void drv_view_drop(struct drv_view *view);

// ---- queues.c ----
void drv_signal_complete(struct rpl_signal *signal, uint64_t start_ns, uint64_t end_ns);
// Waits a little for a signal to change, longer with every call; *idle counts them.
void drv_rest(uint32_t *idle);
void drv_yield(void);             // lets another thread run, without the replaced sched_yield()
int drv_queues_work(void);        // whether a queue executes a packet

// ---- sdma.c ----
struct drv_sdma {
  uint8_t *ring;
  uint64_t ring_bytes;
  uint32_t gpu_id, queue_id;
  const atomic_int *stop;
  uint64_t now_ns;                // of the emulated timeline
  struct drv_view view;
};
// Executes the packet at byte `at` of the ring, of which `available` bytes are written. Returns its size, or 0 after a failure.
uint64_t drv_sdma_execute(struct drv_sdma *sdma, uint64_t at, uint64_t available);
#endif
