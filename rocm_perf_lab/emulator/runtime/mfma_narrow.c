// Matrix products of floats of 4, 6 and 8 bits with exponents per block of 32 elements along K (CDNA4). Of the lanes that hold row i
// of A (or column j of B), lane group g has elements of K: 6 and 4 bits 32 g to 32 g + 31; 8 bits 16 g to 16 g + 15, and as many from
// K / 2 + 16 g on. The exponents of block g are in group g. A block is summed in float32, scaled, and added to C in order of K.
#include <math.h>
#include "atomics.h"

enum { MAX_M = 32, MAX_DEPTH = 128, PER_LANE = 32, HALF_LANE = 16, SCALE_BIAS = 127, SCALE_NAN = 0xff };

struct narrow { int bits, mantissa_bits, bias; uint32_t size, mantissa; };  // masks without the sign
static const struct narrow narrows[RPL_NARROW_FORMATS] = {
  {8, 3, 7, 0x7f, 7}, {8, 2, 15, 0x7f, 3}, {6, 3, 1, 0x1f, 7}, {6, 2, 3, 0x1f, 3}, {4, 1, 1, 7, 1}};

static float to_float(uint32_t bits, int format) {
  const struct narrow *n = &narrows[format];
  uint32_t size = bits & n->size, mantissa = size & n->mantissa, exponent = size / (n->mantissa + 1);
  float value;
  if (format == RPL_E4M3 && size == 0x7f) value = NAN;
  else if (format == RPL_E5M2 && size >= 0x7c) value = mantissa ? NAN : INFINITY;
  else if (exponent) value = ldexpf((float)(mantissa + n->mantissa + 1), (int)exponent - n->bias - n->mantissa_bits);
  else value = ldexpf((float)mantissa, 1 - n->bias - n->mantissa_bits);
  return bits > n->size ? -value : value;
}

static int depth_of(int element, int group, int depth, int format) {
  if (narrows[format].bits != 8) return PER_LANE * group + element;
  return HALF_LANE * group + element % HALF_LANE + element / HALF_LANE * (depth / 2);
}

// Sets out[i][k] for the `m` rows of A, or columns of B, in row-major order.
static void load(const struct rpl_wave *w, int row, int m, int depth, int format, float (*out)[MAX_DEPTH]) {
  int bits = narrows[format].bits;
  for (int l = 0; l < RPL_LANES; l++)
    for (int e = 0; e < PER_LANE; e++) {
      int bit = e * bits, at = bit % 32;
      uint64_t word = w->vgpr[row + bit / 32][l];
      if (at + bits > 32) word |= (uint64_t)w->vgpr[row + bit / 32 + 1][l] << 32;
      out[l % m][depth_of(e, l / m, depth, format)] = to_float((uint32_t)(word >> at) & (2 * narrows[format].size + 1), format);
    }
}

static uint32_t scale_of(const struct rpl_wave *w, int row, uint32_t bits, int byte, int lane) {
  return (row < 0 ? bits : w->vgpr[row][lane]) >> (8 * byte) & 0xff;
}

static float scaled_sum(float before, float block, uint32_t scale_a, uint32_t scale_b) {
  if (scale_a == SCALE_NAN || scale_b == SCALE_NAN) return NAN;
  return (float)(ldexp(block, (int)scale_a + (int)scale_b - 2 * SCALE_BIAS) + before);
}

int rpl_mfma_narrow(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int src_c, uint32_t c_bits, int m, int k, int format_a,
                    int format_b, int scale_a, uint32_t scale_bits_a, int byte_a, int scale_b, uint32_t scale_bits_b, int byte_b) {
  if ((unsigned)format_a >= RPL_NARROW_FORMATS || (unsigned)format_b >= RPL_NARROW_FORMATS)
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, (uint64_t)format_b << 8 | (uint64_t)format_a);
  float a[MAX_M][MAX_DEPTH], b[MAX_M][MAX_DEPTH];
  uint32_t out[MAX_M * MAX_M / RPL_LANES][RPL_LANES];
  load(w, src_a, m, k, format_a, a);
  load(w, src_b, m, k, format_b, b);
  int groups = RPL_LANES / m;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) {
      int lane = j + m * (i / 4 % groups), reg = 4 * (i / 4 / groups) + i % 4;
      float sum = rpl_f32(src_c < 0 ? c_bits : w->vgpr[src_c + reg][lane]);
      for (int g = 0; g < groups; g++) {
        float block = 0;
        for (int e = PER_LANE * g; e < PER_LANE * (g + 1); e++) block = fmaf(a[i][e], b[j][e], block);
        sum = scaled_sum(sum, block, scale_of(w, scale_a, scale_bits_a, byte_a, i + m * g), scale_of(w, scale_b, scale_bits_b, byte_b, j + m * g));
      }
      out[reg][lane] = rpl_bits32(sum);
    }
  memcpy(w->vgpr[dst], out, (size_t)(m * m / RPL_LANES) * sizeof out[0]);  // NOLINT(clang-analyzer-unix.cstring.UninitializedRead): all rows are set
  return 0;
}
