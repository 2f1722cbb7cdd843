// User-mode queues: one for kernels (AQL) and, once it copies, one for the copy engine (SDMA), and what their packets refer to.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "tools.h"

// Of the driver: packets of this thread, which the HIP call that it is in submits.
extern void rpl_driver_packets(uint64_t amd_queue, uint64_t first, uint64_t count) __attribute__((weak, visibility("default")));

enum {
  PACKETS = 4096, SDMA_RING_BYTES = 256 << 10, MOST_QUEUES = 8 /* of a device, before streams share them */, SDMA_WORD = 4,
  FIRST_CAPACITY = 64, INVALID = 1, BARRIER_AND = 3, HEADER_BARRIER = 1 << 8, SYSTEM_SCOPES = 2 << 9 | 2 << 11, MOST_DEPENDENCIES = 5,
  PERCENTAGE = 100, PRIORITY = 7, INDEX_BYTES = 4096,
  MARKER_PACKETS = 256            // free for one marker of each stream: other streams ask for them when this queue is full
};

// amd_queue_t, as far as packets and kernels use it.
struct hip_amd_queue {
  uint32_t type, features;
  uint64_t base, doorbell_signal;
  uint32_t packets, reserved0;
  uint64_t id;
  uint32_t caps, reserved1[3];
  uint64_t write_index;           // 0x38
  uint32_t lds_aperture_high, scratch_aperture_high;
  uint8_t reserved2[0x80 - 0x48];
  uint64_t read_index;            // 0x80
  uint8_t reserved3[0xc0 - 0x88];
  uint64_t inactive_signal;       // 0xc0
};
_Static_assert(offsetof(struct hip_amd_queue, write_index) == 0x38, "layout of amd_queue_t");
_Static_assert(offsetof(struct hip_amd_queue, read_index) == 0x80, "layout of amd_queue_t");

struct barrier {
  uint16_t header, reserved0;
  uint32_t reserved1;
  uint64_t dependencies[MOST_DEPENDENCIES], reserved2, completion;
};

struct hip_pending { uint64_t end; uint64_t object; enum hip_pending_kind kind; };

static struct hip_queue *queues;

struct hip_queue *hip_queues_first(void) { return queues; }

// ---- what packets refer to ----

static void keep(struct hip_pending_list *list, struct hip_pending item) {
  if (list->count == list->capacity) {
    uint64_t larger = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
    struct hip_pending *items = malloc(larger * sizeof *items);
    if (!items) return;           // the object is never given back
    for (uint64_t i = 0; i < list->count; i++) items[i] = list->items[(list->first + i) % list->capacity];
    free(list->items);
    *list = (struct hip_pending_list){items, 0, list->count, larger};
  }
  list->items[(list->first + list->count++) % list->capacity] = item;
}

static void give_back(const struct hip_pending *item) {
  switch (item->kind) {
    case HIP_PENDING_PIN: hip_unpin(item->object); return;
    case HIP_PENDING_STAGE: hip_stage_give_back((void *)item->object); return;
    default: hip_signal_release((struct hip_signal *)item->object);
  }
}

static void reap(struct hip_pending_list *list, uint64_t read) {
  while (list->count) {
    const struct hip_pending *item = &list->items[list->first];
    if (item->end > read) return;
    // A packet leaves the ring before its signal is complete.
    if (item->kind == HIP_PENDING_COMPLETION && hip_signal_load((struct hip_signal *)item->object) > 0) return;
    give_back(item);
    list->first = (list->first + 1) % list->capacity;
    list->count--;
  }
}

static uint64_t read_index(const struct hip_queue *queue) { return __atomic_load_n(&queue->amd->read_index, __ATOMIC_ACQUIRE); }
static uint64_t sdma_read_index(const struct hip_queue *queue) { return __atomic_load_n(&queue->sdma_indexes[0], __ATOMIC_ACQUIRE); }

void hip_queue_reap(struct hip_queue *queue) {
  reap(&queue->pending, read_index(queue));
  if (queue->sdma_ring) reap(&queue->sdma_pending, sdma_read_index(queue));
}

// ---- creation ----

static int get_apertures(const struct hip_device *device, struct hip_amd_queue *amd) {
  struct kfd_process_device_apertures apertures[HIP_MAX_DEVICES];
  struct kfd_ioctl_get_process_apertures_new_args args = {(uint64_t)apertures, HIP_MAX_DEVICES, 0};
  int error = hip_kfd(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);
  for (uint32_t i = 0; !error && i < args.num_of_nodes; i++)
    if (apertures[i].gpu_id == device->gpu_id) {
      amd->lds_aperture_high = (uint32_t)(apertures[i].lds_base >> 32);
      amd->scratch_aperture_high = (uint32_t)(apertures[i].scratch_base >> 32);
    }
  return error;
}

static hipError_t create(struct hip_device *device, struct hip_queue *queue) {
  struct hip_memory ring, amd, kernargs;
  HIP_TRY(hip_memory_allocate(device, HIP_MEMORY_INTERNAL, PACKETS * HIP_AQL_PACKET_BYTES, 0, 0, &ring));
  HIP_TRY(hip_memory_allocate(device, HIP_MEMORY_INTERNAL, sizeof(struct hip_amd_queue), 0, 0, &amd));
  HIP_TRY(hip_memory_allocate(device, HIP_MEMORY_INTERNAL, PACKETS * HIP_KERNARG_BYTES, 0, 0, &kernargs));
  queue->device = device;
  queue->ring = (uint8_t *)ring.address;
  queue->amd = (struct hip_amd_queue *)amd.address;
  queue->kernargs = (uint8_t *)kernargs.address;
  for (int i = 0; i < PACKETS; i++) *(uint16_t *)(queue->ring + (uint64_t)i * HIP_AQL_PACKET_BYTES) = INVALID;
  queue->inactive = hip_signal_create(0);
  if (!queue->inactive || get_apertures(device, queue->amd)) return hipErrorOutOfMemory;
  queue->inactive->event_id = hip_faults_queue_event();
  queue->inactive->event_mailbox = (uint64_t)hip_event_slot(queue->inactive->event_id);
  *queue->amd = (struct hip_amd_queue){.type = 0, .features = 1, .base = ring.address, .packets = PACKETS,
                                       .lds_aperture_high = queue->amd->lds_aperture_high,
                                       .scratch_aperture_high = queue->amd->scratch_aperture_high,
                                       .inactive_signal = (uint64_t)queue->inactive};
  struct kfd_ioctl_create_queue_args args = {.ring_base_address = ring.address, .ring_size = PACKETS * HIP_AQL_PACKET_BYTES,
                                             .write_pointer_address = (uint64_t)&queue->amd->write_index,
                                             .read_pointer_address = (uint64_t)&queue->amd->read_index, .gpu_id = device->gpu_id,
                                             .queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, .queue_percentage = PERCENTAGE,
                                             .queue_priority = PRIORITY};
  if (hip_kfd(AMDKFD_IOC_CREATE_QUEUE, &args)) return hipErrorOutOfMemory;
  queue->id = args.queue_id;
  queue->amd->id = args.queue_id;
  return hipSuccess;
}

hipError_t hip_queue_take(struct hip_device *device, struct hip_queue **result) {
  struct hip_queue *best = NULL;
  int count = 0;
  for (struct hip_queue *queue = queues; queue; queue = queue->next) {
    if (queue->device != device) continue;
    count++;
    if (!best || queue->users < best->users) best = queue;
  }
  if (!best || (best->users && count < MOST_QUEUES)) {
    best = calloc(1, sizeof *best);
    if (!best || hip_faults_watch()) {
      free(best);
      return hipErrorOutOfMemory;
    }
    hipError_t error = create(device, best);
    if (error != hipSuccess) {
      free(best);
      return error;
    }
    best->next = queues;
    queues = best;
    hip_tools_queue(best);
  }
  best->users++;
  *result = best;
  return hipSuccess;
}

void hip_queue_give_back(struct hip_queue *queue) { queue->users--; }

// ---- AQL packets ----

int hip_queue_has_room(struct hip_queue *queue, uint32_t packets, uint64_t sdma_bytes) {
  hip_queue_reap(queue);
  if (queue->submitted + packets + MARKER_PACKETS > read_index(queue) + PACKETS) return 0;
  return !sdma_bytes || !queue->sdma_ring || queue->sdma_indexes[8] + sdma_bytes <= sdma_read_index(queue) + SDMA_RING_BYTES;
}

void *hip_queue_packet(struct hip_queue *queue) {
  uint8_t *packet = queue->ring + queue->submitted % PACKETS * HIP_AQL_PACKET_BYTES;
  memset(packet + sizeof(uint32_t), 0, HIP_AQL_PACKET_BYTES - sizeof(uint32_t));
  return packet;
}

void *hip_queue_kernarg(struct hip_queue *queue, uint64_t bytes) {
  if (bytes <= HIP_KERNARG_BYTES) return queue->kernargs + queue->submitted % PACKETS * HIP_KERNARG_BYTES;
  void *place = hip_stage_take(bytes);
  if (place) keep(&queue->pending, (struct hip_pending){queue->submitted + 1, (uint64_t)place, HIP_PENDING_STAGE});
  return place;
}

void hip_queue_submit(struct hip_queue *queue, uint16_t header, uint16_t setup) {
  uint32_t first = (uint32_t)(header | HEADER_BARRIER | SYSTEM_SCOPES) | (uint32_t)setup << 16;
  if (!hip_tools_packet(queue, queue->ring + queue->submitted % PACKETS * HIP_AQL_PACKET_BYTES, first)) hip_queue_release(queue, first);
}

void hip_queue_release(struct hip_queue *queue, uint32_t first_word) {
  uint32_t *packet = (uint32_t *)(queue->ring + queue->submitted % PACKETS * HIP_AQL_PACKET_BYTES);
  if (rpl_driver_packets) rpl_driver_packets((uint64_t)queue->amd, queue->submitted, 1);
  __atomic_store_n(packet, first_word, __ATOMIC_RELEASE);
  hip_queue_advance(queue, queue->submitted + 1);
}

void hip_queue_advance(struct hip_queue *queue, uint64_t submitted) {
  queue->submitted = submitted;
  __atomic_store_n(&queue->amd->write_index, submitted, __ATOMIC_RELEASE);
}

uint64_t hip_queue_read_index(const struct hip_queue *queue) { return read_index(queue); }

void hip_queue_completes(struct hip_queue *queue, struct hip_signal *signal) {
  hip_signal_hold(signal);
  keep(&queue->pending, (struct hip_pending){queue->submitted, (uint64_t)signal, HIP_PENDING_COMPLETION});
}

void hip_queue_barrier(struct hip_queue *queue, struct hip_signal *const *dependencies, int count, struct hip_signal *completion) {
  struct barrier *packet = hip_queue_packet(queue);
  for (int i = 0; i < count; i++) {
    packet->dependencies[i] = (uint64_t)dependencies[i];
    hip_signal_hold(dependencies[i]);
    keep(&queue->pending, (struct hip_pending){queue->submitted + 1, (uint64_t)dependencies[i], HIP_PENDING_DEPENDENCY});
  }
  packet->completion = (uint64_t)completion;
  hip_queue_submit(queue, BARRIER_AND, 0);
  if (completion) hip_queue_completes(queue, completion);
}

// ---- SDMA packets ----

hipError_t hip_queue_open_sdma(struct hip_queue *queue) {
  if (queue->sdma_ring) return hipSuccess;
  struct hip_memory ring, indexes;
  HIP_TRY(hip_memory_allocate(queue->device, HIP_MEMORY_INTERNAL, SDMA_RING_BYTES, 0, 0, &ring));
  HIP_TRY(hip_memory_allocate(queue->device, HIP_MEMORY_INTERNAL, INDEX_BYTES, 0, 0, &indexes));
  queue->sdma_indexes = (uint64_t *)indexes.address;
  struct kfd_ioctl_create_queue_args args = {.ring_base_address = ring.address, .ring_size = SDMA_RING_BYTES,
                                             .write_pointer_address = (uint64_t)&queue->sdma_indexes[8],
                                             .read_pointer_address = (uint64_t)&queue->sdma_indexes[0], .gpu_id = queue->device->gpu_id,
                                             .queue_type = KFD_IOC_QUEUE_TYPE_SDMA, .queue_percentage = PERCENTAGE,
                                             .queue_priority = PRIORITY};
  if (hip_kfd(AMDKFD_IOC_CREATE_QUEUE, &args)) return hipErrorOutOfMemory;
  queue->sdma_id = args.queue_id;
  queue->sdma_ring = (uint8_t *)ring.address;
  return hipSuccess;
}

// Writes a packet; the engine reads it at once, so it is written whole before the index changes.
void hip_sdma_write(struct hip_queue *queue, const uint32_t *words, uint32_t count) {
  uint64_t at = queue->sdma_indexes[8];
  for (uint32_t i = 0; i < count; i++, at += SDMA_WORD) memcpy(queue->sdma_ring + at % SDMA_RING_BYTES, &words[i], SDMA_WORD);
  __atomic_store_n(&queue->sdma_indexes[8], at, __ATOMIC_RELEASE);
}

void hip_sdma_ring(struct hip_queue *queue) {
  (void)queue;
  hip_ring_driver();
}

void hip_sdma_keep(struct hip_queue *queue, enum hip_pending_kind kind, uint64_t object) {
  keep(&queue->sdma_pending, (struct hip_pending){queue->sdma_indexes[8], object, kind});
}

void hip_queues_forget(void) { queues = NULL; }
