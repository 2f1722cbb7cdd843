// Ends the process after a memory fault, an exception of the hardware, or an error of a queue, with the messages of AMD's runtime.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

enum { WATCHED = 3, STACK_BYTES = 128 << 10, LINE_BYTES = 256 };
#define FOR_EVER UINT32_MAX
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_watching;
static uint32_t memory_event, hardware_event, queue_event;

uint32_t hip_faults_queue_event(void) { return queue_event; }

static void end_process(const char *text) {
  fflush(stdout);
  (void)!write(STDERR_FILENO, text, strlen(text));
  abort();
}

static int node_of(uint32_t gpu_id) {
  for (int i = 0; i < hip_device_count(); i++)
    if (hip_device_at(i)->gpu_id == gpu_id) return (int)hip_device_at(i)->node;
  return 0;
}

static void report_memory(const struct kfd_hsa_memory_exception_data *data) {
  const char *reason = data->failure.NotPresent    ? "Page not present or supervisor privilege."
                       : data->failure.ReadOnly    ? "Write access to a read-only page."
                       : data->failure.NoExecute   ? "Execute access to a page marked NX."
                                                   : "Unknown.";
  char line[LINE_BYTES];
  snprintf(line, sizeof line, "Memory access fault by GPU node-%d (Agent handle: %#x) on address %#llx. Reason: %s\n", node_of(data->gpu_id),
           data->gpu_id, (unsigned long long)data->va, reason);
  end_process(line);
}

static void report_hardware(const struct kfd_hsa_hw_exception_data *data) {
  char line[LINE_BYTES];
  snprintf(line, sizeof line, "HW Exception by GPU node-%d (Agent handle: %#x) reason :GPU Hang\n", node_of(data->gpu_id), data->gpu_id);
  end_process(line);
}

struct status { uint32_t code; int number; const char *name, *text; };

static const struct status *status_of(uint32_t code) {
  static const struct status known[] = {
      {0x2, 0x1001, "HSA_STATUS_ERROR_INVALID_ARGUMENT", "One of the actual arguments does not meet a precondition stated in the documentation of the corresponding formal argument."},
      {0x4, 0x1009, "HSA_STATUS_ERROR_INVALID_ALLOCATION", "The requested allocation is not valid."},
      {0x8, 0x100f, "HSA_STATUS_ERROR_INVALID_CODE_OBJECT", "The code object is invalid."},
      {0x20, 0x1009, "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT", "The AQL packet is malformed."},
      {0x40, 0x1001, "HSA_STATUS_ERROR_INVALID_ARGUMENT", "One of the actual arguments does not meet a precondition stated in the documentation of the corresponding formal argument."},
      {0x20000000, 0x29, "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", "The agent attempted to access memory beyond the largest legal address."},
      {0x40000000, 0x2a, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", "The agent attempted to execute an illegal shader instruction."},
      {0x80000000, 0x1016, "HSA_STATUS_ERROR_EXCEPTION", "An HSAIL operation resulted in a hardware exception."},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].code & code) return &known[i];
  return &known[sizeof known / sizeof *known - 1];
}

static void report_queues(void) {
  for (struct hip_queue *queue = hip_queues_first(); queue; queue = queue->next) {
    int64_t code = hip_signal_load(queue->inactive);
    if (!code) continue;
    const struct status *status = status_of((uint32_t)code);
    char line[LINE_BYTES + LINE_BYTES];
    snprintf(line, sizeof line, ":0:rocdevice.cpp: Callback: Queue %p aborting with error : %s: %s code: %#x\n", (void *)queue->amd,
             status->name, status->text, (unsigned)status->number);
    end_process(line);
  }
}

static void *watch(void *unused) {
  (void)unused;
  struct kfd_event_data data[WATCHED] = {{.event_id = memory_event}, {.event_id = hardware_event}, {.event_id = queue_event}};
  for (;;) {
    memset(&data[0].memory_exception_data, 0, sizeof data[0].memory_exception_data);
    memset(&data[1].hw_exception_data, 0, sizeof data[1].hw_exception_data);
    struct kfd_ioctl_wait_events_args args = {.events_ptr = (uint64_t)data, .num_events = WATCHED, .timeout = FOR_EVER};
    if (hip_kfd(AMDKFD_IOC_WAIT_EVENTS, &args)) return NULL;  // a child after fork() has closed the device
    if (data[0].memory_exception_data.gpu_id) report_memory(&data[0].memory_exception_data);
    if (data[1].hw_exception_data.gpu_id) report_hardware(&data[1].hw_exception_data);
    report_queues();
  }
}

static int start(void) {
  int error = hip_kfd_event_create(KFD_IOC_EVENT_MEMORY, &memory_event);
  if (!error) error = hip_kfd_event_create(KFD_IOC_EVENT_HW_EXCEPTION, &hardware_event);
  if (!error) error = hip_kfd_event_create(KFD_IOC_EVENT_SIGNAL, &queue_event);
  return error ? error : hip_thread_create(watch, NULL, NULL);
}

int hip_thread_create(void *(*run)(void *), void *argument, pthread_t *joinable) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);                     // of the thread itself
  pthread_attr_init(&attributes);
  if (!joinable) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the application's handlers run on its own threads
  int error = pthread_create(joinable ? joinable : &thread, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

int hip_faults_watch(void) {
  pthread_mutex_lock(&lock);
  int error = is_watching ? 0 : start();
  if (!error) is_watching = 1;
  pthread_mutex_unlock(&lock);
  return error;
}

void hip_faults_forget(void) {
  pthread_mutex_init(&lock, NULL);
  is_watching = 0;
}
