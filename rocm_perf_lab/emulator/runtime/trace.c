// Trace of a sampled wavefront in 64-bit words for the timing engine; see enum rpl_trace_tag.
#include <stdlib.h>
#include "access.h"

enum { TAG_SHIFT = 56, SEGMENT_SHIFT = 6, MAX_SEGMENTS = 2 * RPL_LANES };

void rpl_trace_append(struct rpl_trace *t, const uint64_t *words, uint64_t count) {
  if (t->count + count > t->capacity) {
    uint64_t capacity = 2 * (t->count + count) + 64;
    uint64_t *grown = realloc(t->words, capacity * sizeof *grown);
    if (!grown) return;  // truncated trace: the timing engine extrapolates; results are not affected
    t->words = grown;
    t->capacity = capacity;
  }
  memcpy(t->words + t->count, words, count * sizeof *words);
  t->count += count;
}

void rpl_trace_block(struct rpl_wave *w, int block) {
  if (!w->trace) return;
  uint64_t word = (uint64_t)RPL_T_BLOCK << TAG_SHIFT | (uint32_t)block;
  rpl_trace_append(w->trace, &word, 1);
}

void rpl_trace_segments(struct rpl_wave *w, int tag, int inst, uint64_t lanes, const uint64_t *address, uint32_t width) {
  uint64_t words[1 + MAX_SEGMENTS], count = 0, *segments = words + 1;
  RPL_FOR_LANES(lanes, l) {
    uint64_t last = (address[l] + width - 1) >> SEGMENT_SHIFT;
    for (uint64_t segment = address[l] >> SEGMENT_SHIFT; segment <= last; segment++) {
      uint64_t k = count;
      while (k > 0 && segments[k - 1] != segment << SEGMENT_SHIFT) k--;
      if (k == 0 && count < MAX_SEGMENTS) segments[count++] = segment << SEGMENT_SHIFT;
    }
  }
  words[0] = (uint64_t)tag << TAG_SHIFT | count << 32 | (uint32_t)inst;
  rpl_trace_append(w->trace, words, 1 + count);
}
