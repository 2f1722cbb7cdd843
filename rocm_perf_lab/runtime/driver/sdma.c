// Executes the packets of a copy engine (SDMA 4.x as of gfx90a and gfx942; layouts: sdma_v4_0 packets of the Linux driver).
#include <stddef.h>
#include <string.h>

#include "areas.h"
#include "execution.h"

enum { PACKET_WORDS = 16, RECT_WORDS = 13, WORD = 4, NESTED_RINGS = 2 };
enum operation {
  NOP = 0, COPY = 1, WRITE = 2, INDIRECT = 4, FENCE = 5, TRAP = 6, SEMAPHORE = 7, POLL = 8, CONDITIONAL = 9, ATOMIC = 10, FILL = 11,
  TIMESTAMP = 13, REGISTER_WRITE = 14, PRE_EXECUTION = 15, FLUSH_TLB = 16, FLUSH_CACHES = 17
};
enum copy_kind { LINEAR = 0, SUB_WINDOW = 4 };
// Emulated rates. Copies between host and GPU are limited by a PCIe 5.0 x16 link, others by what one engine moves.
enum { LINK_BYTES_PER_US = 55000, LOCAL_BYTES_PER_US = 110000, NS_PER_US = 1000, PACKET_NS = 500, RECENT_NS = 1000000000 };

// A packet: its words, wherever in the ring they are.
struct packet {
  struct drv_sdma *sdma;
  const uint8_t *ring;            // or the indirect buffer
  uint64_t ring_bytes, at, available;  // in bytes
  int depth;                      // of indirect buffers
};

static uint32_t word(const struct packet *p, uint64_t index) {
  uint32_t value;
  memcpy(&value, p->ring + (p->at + WORD * index) % p->ring_bytes, sizeof value);
  return value;
}

static uint64_t pair(const struct packet *p, uint64_t index) { return word(p, index) | (uint64_t)word(p, index + 1) << 32; }

static uint32_t bits(uint32_t value, int first, int count) { return value >> first & ((1u << count) - 1); }

// ---- memory ----

// Whether the GPU can access [at, at + bytes); raises its memory exception if not.
static int accessible(struct drv_sdma *sdma, uint64_t at, uint64_t bytes) {
  if (!bytes || drv_view_has(&sdma->view, at, at + bytes)) return 1;
  // several mappings in a row
  for (uint64_t page = at; page < at + bytes; page = (page | (RPL_PAGE_BYTES - 1)) + 1) {
    if (drv_view_has(&sdma->view, page, page + 1)) continue;
    drv_log(1, "copy engine: no memory at %#llx", (unsigned long long)page);
    drv_event_memory_fault(sdma->gpu_id, page, 1, 0);
    return 0;
  }
  return 1;
}

static void pass_time(struct drv_sdma *sdma, uint64_t from, uint64_t to, uint64_t bytes) {
  struct drv_block_place place;
  int is_local = drv_memory_block(to, &place) && place.is_vram;
  is_local = is_local && (!from || (drv_memory_block(from, &place) && place.is_vram));
  uint64_t rate = is_local ? LOCAL_BYTES_PER_US : LINK_BYTES_PER_US, start = sdma->now_ns;
  sdma->now_ns += PACKET_NS + bytes * NS_PER_US / rate;
  if (from) drv_timing_record_copy(sdma->gpu_id, sdma->queue_id, from, to, bytes, start, sdma->now_ns);
}

static int copy(struct drv_sdma *sdma, uint64_t from, uint64_t to, uint64_t bytes) {
  if (!accessible(sdma, from, bytes) || !accessible(sdma, to, bytes)) return 0;
  drv_copy((void *)to, (const void *)from, bytes);
  drv_area_written(to, bytes);
  return 1;
}

static uint64_t copy_linear(const struct packet *p) {
  enum { WORDS = 7, BROADCAST_WORDS = 9, BROADCAST_BIT = 27, COUNT_BITS = 30 };
  uint64_t bytes = bits(word(p, 1), 0, COUNT_BITS) + 1ull, from = pair(p, 3), to = pair(p, 5);
  if (!copy(p->sdma, from, to, bytes)) return 0;
  int broadcasts = word(p, 0) >> BROADCAST_BIT & 1;
  if (broadcasts && !copy(p->sdma, from, pair(p, 7), bytes)) return 0;
  pass_time(p->sdma, from, to, bytes);
  return broadcasts ? BROADCAST_WORDS : WORDS;
}

// One side of a copy of a sub-window: words `first` to first + 4.
struct window { uint64_t base, x, y, z, pitch, slice; };

static struct window window_of(const struct packet *p, uint64_t first) {
  uint32_t xy = word(p, first + 2), z = word(p, first + 3);
  return (struct window){pair(p, first), bits(xy, 0, 14), bits(xy, 16, 14), bits(z, 0, 11), (z >> 13) + 1ull,
                         bits(word(p, first + 4), 0, 28) + 1ull};
}

static uint64_t copy_window(const struct packet *p) {
  uint64_t element = 1ull << (word(p, 0) >> 29);
  struct window from = window_of(p, 1), to = window_of(p, 6);
  uint64_t width = bits(word(p, 11), 0, 14) + 1ull, height = bits(word(p, 11), 16, 14) + 1ull, depth = bits(word(p, 12), 0, 11) + 1ull;
  for (uint64_t z = 0; z < depth; z++)
    for (uint64_t y = 0; y < height; y++) {
      uint64_t source = from.base + element * ((from.z + z) * from.slice + (from.y + y) * from.pitch + from.x);
      uint64_t target = to.base + element * ((to.z + z) * to.slice + (to.y + y) * to.pitch + to.x);
      if (!copy(p->sdma, source, target, width * element)) return 0;
    }
  pass_time(p->sdma, from.base, to.base, width * height * depth * element);
  return RECT_WORDS;
}

// The count of a fill is in bytes, less one unit.
static uint64_t fill(const struct packet *p) {
  enum { WORDS = 5, COUNT_BITS = 30 };
  uint32_t unit = 1u << (word(p, 0) >> 30), value = word(p, 3);
  uint64_t to = pair(p, 1), bytes = (bits(word(p, 4), 0, COUNT_BITS) / unit + 1ull) * unit;
  if (!accessible(p->sdma, to, bytes)) return 0;
  for (uint64_t at = 0; at < bytes; at += unit) memcpy((void *)(to + at), &value, unit);
  drv_area_written(to, bytes);
  pass_time(p->sdma, 0, to, bytes);
  return WORDS;
}

static uint64_t write_words(const struct packet *p) {
  enum { HEAD_WORDS = 4, COUNT_BITS = 20 };
  uint64_t count = bits(word(p, 3), 0, COUNT_BITS) + 1ull, to = pair(p, 1);
  if (!accessible(p->sdma, to, count * WORD)) return 0;
  for (uint64_t k = 0; k < count; k++) __atomic_store_n((uint32_t *)to + k, word(p, HEAD_WORDS + k), __ATOMIC_RELEASE);
  drv_area_written(to, count * WORD);
  return HEAD_WORDS + count;
}

// ---- synchronisation ----

static uint64_t fence(const struct packet *p, int is_64_bit) {
  enum { WORDS = 4, LONG_WORDS = 5 };
  uint64_t at = pair(p, 1);
  if (!accessible(p->sdma, at, is_64_bit ? 2 * WORD : WORD)) return 0;
  if (is_64_bit) __atomic_store_n((uint64_t *)at, pair(p, 3), __ATOMIC_RELEASE);
  else __atomic_store_n((uint32_t *)at, word(p, 3), __ATOMIC_RELEASE);
  drv_queues_wake();              // packets of other queues may wait for it
  return is_64_bit ? LONG_WORDS : WORDS;
}

static uint64_t trap(const struct packet *p) {
  enum { WORDS = 2, EVENT_BITS = 28 };
  uint32_t event = bits(word(p, 1), 0, EVENT_BITS);
  if (event) drv_event_set(event);
  return WORDS;
}

static int compare(int function, uint32_t value, uint32_t reference) {
  switch (function) {
    case 1: return value < reference;
    case 2: return value <= reference;
    case 3: return value == reference;
    case 4: return value != reference;
    case 5: return value >= reference;
    case 6: return value > reference;
    default: return 1;
  }
}

// The word is that of a signal: the next packet starts when the signal was completed on its own timeline, or, by the host, now.
static void wait_ended(struct drv_sdma *sdma, uint64_t at) {
  const struct rpl_signal *signal = (const struct rpl_signal *)(at - offsetof(struct rpl_signal, value));
  uint64_t now = drv_nanoseconds(), end = 0;
  if (accessible(sdma, (uint64_t)signal, sizeof *signal)) end = signal->end_ticks * RPL_TICK_NS;
  if (end <= sdma->now_ns || end - sdma->now_ns > RECENT_NS) end = now;
  if (end > sdma->now_ns) sdma->now_ns = end;
}

// Waits for a value in memory; without the memory bit it flushes the host's data path, which needs nothing here.
static uint64_t poll(const struct packet *p) {
  enum { WORDS = 6, FUNCTION_SHIFT = 28, MEMORY_SHIFT = 31 };
  uint32_t head = word(p, 0), idle = 0;
  if (!(head >> MEMORY_SHIFT)) return WORDS;
  uint64_t at = pair(p, 1);
  if (!accessible(p->sdma, at, WORD)) return 0;
  int function = (int)(head >> FUNCTION_SHIFT & 7);
  while (!compare(function, __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE) & word(p, 4), word(p, 3))) {
    if (atomic_load_explicit(p->sdma->stop, memory_order_relaxed)) return 0;
    drv_rest(&idle);
  }
  if (idle) wait_ended(p->sdma, at);
  return WORDS;
}

static uint64_t atomic(const struct packet *p) {
  enum { WORDS = 8, OPERATION_SHIFT = 25, SWAP = 0x27, CMPSWAP = 0x28, ADD = 0x2f, SUB = 0x30, AND = 0x35, OR = 0x36, XOR = 0x37 };
  uint64_t at = pair(p, 1), source = pair(p, 3), compared = pair(p, 5);
  if (!accessible(p->sdma, at, 2 * WORD)) return 0;
  switch (word(p, 0) >> OPERATION_SHIFT) {
    case SWAP: __atomic_exchange_n((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    case CMPSWAP: __atomic_compare_exchange_n((uint64_t *)at, &compared, source, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); break;
    case ADD: __atomic_fetch_add((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    case SUB: __atomic_fetch_sub((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    case AND: __atomic_fetch_and((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    case OR: __atomic_fetch_or((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    case XOR: __atomic_fetch_xor((uint64_t *)at, source, __ATOMIC_SEQ_CST); break;
    default: return 0;
  }
  drv_queues_wake();
  return WORDS;
}

static uint64_t timestamp(const struct packet *p) {
  enum { WORDS = 3 };
  uint64_t at = pair(p, 1), ticks = p->sdma->now_ns / RPL_TICK_NS;
  if (!accessible(p->sdma, at, sizeof ticks)) return 0;
  memcpy((void *)at, &ticks, sizeof ticks);
  return WORDS;
}

static uint64_t conditional(const struct packet *p) {
  enum { WORDS = 5, COUNT_BITS = 14 };
  uint64_t at = pair(p, 1);
  if (!accessible(p->sdma, at, WORD)) return 0;
  int executes = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE) == word(p, 3);
  return WORDS + (executes ? 0 : bits(word(p, 4), 0, COUNT_BITS));
}

// ---- packets ----

static uint64_t execute(const struct packet *p);

static uint64_t indirect(const struct packet *p) {
  enum { WORDS = 6, SIZE_BITS = 20 };
  uint64_t base = pair(p, 1), words = bits(word(p, 3), 0, SIZE_BITS);
  if (p->depth >= NESTED_RINGS || !accessible(p->sdma, base, words * WORD)) return 0;
  for (uint64_t at = 0; at < words;) {
    struct packet inner = {p->sdma, (const uint8_t *)base, words * WORD, at * WORD, (words - at) * WORD, p->depth + 1};
    uint64_t used = execute(&inner);
    if (!used) return 0;
    at += used;
  }
  return WORDS;
}

// Words of the packet, or 0 if it failed.
static uint64_t execute(const struct packet *p) {
  enum { NOP_COUNT_BITS = 14, LONG_FENCE = 2 };
  uint32_t head = word(p, 0), operation = bits(head, 0, 8), kind = bits(head, 8, 8);
  switch (operation) {
    case NOP: return 1 + bits(head, 16, NOP_COUNT_BITS);
    case COPY: return kind == LINEAR ? copy_linear(p) : kind == SUB_WINDOW ? copy_window(p) : 0;
    case WRITE: return write_words(p);
    case INDIRECT: return indirect(p);
    case FENCE: return fence(p, kind == LONG_FENCE);
    case TRAP: return trap(p);
    case POLL: return poll(p);
    case CONDITIONAL: return conditional(p);
    case ATOMIC: return atomic(p);
    case FILL: return fill(p);
    case TIMESTAMP: return timestamp(p);
    case SEMAPHORE: case REGISTER_WRITE: return 3;
    case PRE_EXECUTION: return 2;
    case FLUSH_TLB: return 4;
    case FLUSH_CACHES: return 5;
    default: return 0;
  }
}

uint64_t drv_sdma_execute(struct drv_sdma *sdma, uint64_t at, uint64_t available) {
  struct packet packet = {sdma, sdma->ring, sdma->ring_bytes, at, available, 0};
  uint64_t words = execute(&packet);
  if (!words && !atomic_load(sdma->stop))
    drv_log(1, "copy engine: packet %#x failed", word(&packet, 0));
  return words * WORD;
}
