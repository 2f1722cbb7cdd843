// Small pieces of memory that GPUs can access: arguments of kernels that are larger than their place in a queue, and copies of pageable
// memory. Sizes are powers of two; memory is kept for later.
#define _GNU_SOURCE
#include "core.h"

enum { SMALLEST_SHIFT = 12, LARGEST_SHIFT = 24, CLASSES = LARGEST_SHIFT - SMALLEST_SHIFT + 1, HEADER_BYTES = 64 };
struct piece { struct piece *next; uint32_t class; };
static struct piece *pieces[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *hip_stage_take(uint64_t bytes) {
  uint32_t class = 0;
  while (class < CLASSES && (UINT64_C(1) << (SMALLEST_SHIFT + class)) < bytes + HEADER_BYTES) class++;
  if (class == CLASSES) return NULL;
  pthread_mutex_lock(&lock);
  struct piece *piece = pieces[class];
  if (piece) pieces[class] = piece->next;
  pthread_mutex_unlock(&lock);
  if (!piece) {
    struct hip_memory block;
    if (hip_memory_allocate(hip_device_at(0), HIP_MEMORY_INTERNAL, UINT64_C(1) << (SMALLEST_SHIFT + class), 0, 0, &block) != hipSuccess)
      return NULL;
    piece = (struct piece *)block.address;
    piece->class = class;
  }
  return (uint8_t *)piece + HEADER_BYTES;
}

void hip_stage_give_back(void *memory) {
  struct piece *piece = (struct piece *)((uint8_t *)memory - HEADER_BYTES);
  pthread_mutex_lock(&lock);
  piece->next = pieces[piece->class];
  pieces[piece->class] = piece;
  pthread_mutex_unlock(&lock);
}

void hip_stage_forget(void) {
  pthread_mutex_init(&lock, NULL);
  for (int i = 0; i < CLASSES; i++) pieces[i] = NULL;
}
