// Calls of kernels to the host: a wavefront fills a packet, rings a doorbell and waits until a thread here has answered. Layouts: ROCm
// device libraries (ockl, hostcall_impl.cl) up to ROCm 7, whose packets are on stacks, and later ones, whose packets have phases.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "modules.h"

enum { PACKETS = 256 /* a power of two */, LANES = 64, SLOTS = 8, READY = 1, HEAP_BYTES = 128 << 10 };
enum service { FUNCTION_CALL = 1, PRINTF, DEVICE_MEMORY };
enum { MESSAGE_BEGINS = 1, MESSAGE_ENDS = 2, LENGTH_SHIFT = 5, LENGTH_MASK = 7, ID_SHIFT = 8, MOST_MESSAGES = 4096 };

typedef uint64_t slots_t[LANES][SLOTS];
struct stacked_header { uint64_t next, active; uint32_t service; _Atomic uint32_t control; };
struct phased_header { uint64_t active; uint32_t service, padding; };
struct stacked {
  uint64_t headers, payloads, doorbell;
  _Atomic uint64_t free, ready;   // a packet's number and, above it, a tag that changes with every use; 0: none
  uint64_t mask;
};
struct phased {
  uint64_t device_phases, host_phases, occupied, headers, payloads, doorbell;
  uint32_t packets;
};
struct message { struct message *next; uint64_t id; uint32_t count, capacity; uint64_t *words; };

struct calls {                    // of one device, in one of the two layouts
  struct hip_device *device;
  uint64_t address;
  struct hip_signal *doorbell;
  int is_phased;
  struct message *messages;       // incomplete ones
  uint64_t last_id;
  uint32_t message_count;
  slots_t *payloads;
  struct stacked_header *stacked_headers;
  struct phased_header *phased_headers;
  _Atomic uint32_t *device_phases, *host_phases;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct calls *all[HIP_MAX_DEVICES][2];
static uint64_t heaps[HIP_MAX_DEVICES];

void hip_services_forget(void) {
  pthread_mutex_init(&lock, NULL);
  memset(all, 0, sizeof all);
  memset(heaps, 0, sizeof heaps);
}

// ---- messages: words of a lane that arrive in several packets ----

static struct message *message_of(struct calls *calls, uint64_t descriptor) {
  if (descriptor & MESSAGE_BEGINS) {
    struct message *made = calls->message_count < MOST_MESSAGES ? calloc(1, sizeof *made) : NULL;
    if (!made) return NULL;
    made->id = ++calls->last_id;
    made->next = calls->messages;
    calls->messages = made;
    calls->message_count++;
    return made;
  }
  struct message *at = calls->messages;
  while (at && at->id != descriptor >> ID_SHIFT) at = at->next;
  return at;
}

static void append(struct message *message, const uint64_t *words, uint32_t count) {
  if (message->count + count > message->capacity) {
    uint32_t capacity = 2 * message->capacity + SLOTS;
    uint64_t *bigger = realloc(message->words, capacity * sizeof *bigger);
    if (!bigger) return;
    message->words = bigger;
    message->capacity = capacity;
  }
  memcpy(message->words + message->count, words, count * sizeof *words);
  message->count += count;
}

static void drop(struct calls *calls, struct message *message) {
  struct message **at = &calls->messages;
  while (*at != message) at = &(*at)->next;
  *at = message->next;
  calls->message_count--;
  free(message->words);
  free(message);
}

static void print(struct calls *calls, uint64_t *slots) {
  uint64_t descriptor = slots[0];
  struct message *message = message_of(calls, descriptor);
  if (!message) {
    slots[0] = 0;
    return;
  }
  append(message, slots + 1, descriptor >> LENGTH_SHIFT & LENGTH_MASK);
  slots[0] = message->id << ID_SHIFT;
  if (!(descriptor & MESSAGE_ENDS)) return;
  slots[0] = (uint64_t)(int64_t)hip_print_message(message->words, message->count);
  drop(calls, message);
}

// ---- services ----

typedef void (*host_function)(uint64_t *output, const uint64_t *input);

static void serve_lane(struct calls *calls, uint32_t service, uint64_t *slots) {
  if (service == PRINTF) {
    print(calls, slots);
  } else if (service == DEVICE_MEMORY) {
    if (slots[0]) hip_heap_free(slots[0]);
    else slots[0] = hip_heap_allocate(calls->device, slots[1]);
  } else if (service == FUNCTION_CALL) {
    uint64_t output[2] = {0, 0};
    ((host_function)slots[0])(output, slots + 1);
    memcpy(slots, output, sizeof output);
  } else {
    hip_say("a kernel called service %u of the host, which does not exist here", service);
  }
}

static void serve(struct calls *calls, uint32_t number, uint32_t service, uint64_t active) {
  for (uint32_t lane = 0; lane < LANES; lane++)
    if (active >> lane & 1) serve_lane(calls, service, calls->payloads[number][lane]);
}

// Answers all waiting packets, the oldest first.
static void serve_stacked(struct calls *calls) {
  struct stacked *queue = (struct stacked *)calls->address;
  uint32_t numbers[PACKETS], count = 0;
  for (uint64_t at = atomic_exchange(&queue->ready, 0); at && count < PACKETS;) {
    uint32_t number = (uint32_t)(at & (PACKETS - 1));
    numbers[count++] = number;
    at = calls->stacked_headers[number].next;
  }
  while (count) {
    uint32_t number = numbers[--count];
    struct stacked_header *header = &calls->stacked_headers[number];
    serve(calls, number, header->service, header->active);
    atomic_fetch_and_explicit(&header->control, ~(uint32_t)READY, memory_order_release);
  }
}

static void serve_phased(struct calls *calls) {
  for (uint32_t number = 0; number < PACKETS; number++) {
    if (atomic_load_explicit(&calls->device_phases[number], memory_order_acquire) == atomic_load(&calls->host_phases[number])) continue;
    serve(calls, number, calls->phased_headers[number].service, calls->phased_headers[number].active);
    atomic_fetch_xor_explicit(&calls->host_phases[number], 1, memory_order_release);
  }
}

static void *listen(void *argument) {
  struct calls *calls = argument;
  for (int64_t seen = 0;;) {
    hip_signal_wait_change(calls->doorbell, seen);
    seen = hip_signal_load(calls->doorbell);
    if (calls->is_phased) serve_phased(calls);
    else serve_stacked(calls);
  }
  return NULL;
}

// ---- memory ----

static uint64_t aligned(uint64_t bytes) { return (bytes + HIP_PAGE_BYTES - 1) & ~(uint64_t)(HIP_PAGE_BYTES - 1); }

enum { PHASES_OFFSET = 1024, PHASES_BYTES = PACKETS * sizeof(uint32_t), OCCUPIED_BYTES = PACKETS / 8 };

static void lay_out(struct calls *calls) {
  uint64_t address = calls->address, doorbell = (uint64_t)calls->doorbell;
  uint64_t headers = address + HIP_PAGE_BYTES, payloads = headers + aligned(PACKETS * sizeof(struct stacked_header));
  calls->payloads = (slots_t *)payloads;
  if (calls->is_phased) {
    uint64_t device = address + PHASES_OFFSET, host = device + PHASES_BYTES;
    calls->phased_headers = (struct phased_header *)headers;
    calls->device_phases = (_Atomic uint32_t *)device;
    calls->host_phases = (_Atomic uint32_t *)host;
    *(struct phased *)address = (struct phased){device, host, host + PHASES_BYTES, headers, payloads, doorbell, PACKETS};
    return;
  }
  calls->stacked_headers = (struct stacked_header *)headers;
  for (uint64_t k = 1; k < PACKETS; k++) calls->stacked_headers[k].next = (k - 1) | PACKETS;
  struct stacked *queue = (struct stacked *)address;
  queue->headers = headers;
  queue->payloads = payloads;
  queue->doorbell = doorbell;
  queue->mask = PACKETS - 1;
  atomic_store(&queue->free, (PACKETS - 1) | PACKETS);
}

static struct calls *make(struct hip_device *device, int is_phased) {
  struct hip_memory memory;
  struct calls *calls = calloc(1, sizeof *calls);
  uint64_t bytes = HIP_PAGE_BYTES + aligned(PACKETS * sizeof(struct stacked_header)) + PACKETS * sizeof(slots_t);
  if (!calls || hip_memory_allocate(device, HIP_MEMORY_INTERNAL, bytes, 0, 0, &memory) != hipSuccess) {
    free(calls);
    return NULL;
  }
  calls->device = device;
  calls->is_phased = is_phased;
  calls->address = memory.address;
  calls->doorbell = hip_signal_create(0);
  if (calls->doorbell) lay_out(calls);
  if (!calls->doorbell || hip_thread_create(listen, calls, NULL)) {
    hip_signal_release(calls->doorbell);
    hip_memory_free(memory.address);
    free(calls);
    return NULL;
  }
  return calls;
}

static int has_argument(const struct ihipModuleSymbol_t *function, enum hip_hidden hidden) {
  for (uint32_t k = function->explicit_count; k < function->argument_count; k++)
    if (function->arguments[k].hidden == hidden) return 1;
  return 0;
}

static int prepare(const struct ihipModuleSymbol_t *function) {
  int index = function->device->index, layout = function->module->has_phased_calls;
  struct hip_memory memory;
  if (has_argument(function, HIP_HIDDEN_HOSTCALL_BUFFER) && !all[index][layout]) all[index][layout] = make(function->device, layout);
  if (has_argument(function, HIP_HIDDEN_HEAP) && !heaps[index] &&
      hip_memory_allocate(function->device, HIP_MEMORY_INTERNAL, HEAP_BYTES, 0, 0, &memory) == hipSuccess)
    heaps[index] = memory.address;
  return (all[index][layout] || !has_argument(function, HIP_HIDDEN_HOSTCALL_BUFFER)) && (heaps[index] || !has_argument(function, HIP_HIDDEN_HEAP));
}

hipError_t hip_services_prepare(const struct ihipModuleSymbol_t *function) {
  if (function->argument_count == function->explicit_count) return hipSuccess;
  if (has_argument(function, HIP_HIDDEN_PRINTF_BUFFER)) {
    hip_say("kernel %s prints to a buffer, which this runtime does not read; compile without -mprintf-kind=buffered", function->name);
    return hipErrorNotSupported;
  }
  pthread_mutex_lock(&lock);
  int is_ready = prepare(function);
  pthread_mutex_unlock(&lock);
  return is_ready ? hipSuccess : hipErrorOutOfMemory;
}

uint64_t hip_services_calls(const struct ihipModuleSymbol_t *function) {
  const struct calls *calls = all[function->device->index][function->module->has_phased_calls];
  return calls ? calls->address : 0;
}

uint64_t hip_services_heap(const struct hip_device *device) { return heaps[device->index]; }
