// Matrix products of floats of 4, 6 and 8 bits with exponents per block of 32 elements along K (CDNA4). Of the lanes that hold row i
// of A (or column j of B), lane group g has elements of K: 6 and 4 bits 32 g to 32 g + 31; 8 bits 16 g to 16 g + 15, and as many from
// K / 2 + 16 g on. The exponents of block g are in group g. The sum of a block is scaled and added to C in order of K.
#include <math.h>
#include "atomics.h"
#include "mfma_sums.h"

enum { MAX_M = 32, PER_LANE = 32, HALF_LANE = 16, MAX_GROUPS = 4, SCALE_BIAS = 127, SCALE_NAN = 0xff };

struct narrow { int bits, mantissa_bits, bias; uint32_t size, mantissa; };  // masks without the sign
static const struct narrow narrows[RPL_NARROW_FORMATS] = {
  {8, 3, 7, 0x7f, 7}, {8, 2, 15, 0x7f, 3}, {6, 3, 1, 0x1f, 7}, {6, 2, 3, 0x1f, 3}, {4, 1, 1, 7, 1}};

static float power_of_two(int exponent) { return rpl_f32((uint32_t)(SCALE_BIAS + exponent) << 23); }

static float to_float(uint32_t bits, int format) {
  const struct narrow *n = &narrows[format];
  uint32_t size = bits & n->size;
  float normal = rpl_f32((size << (23 - n->mantissa_bits)) + ((uint32_t)(SCALE_BIAS - n->bias) << 23));
  float denormal = (float)(size & n->mantissa) * power_of_two(1 - n->bias - n->mantissa_bits);
  float value = size >> n->mantissa_bits ? normal : denormal;
  if (format == RPL_E4M3 && size == 0x7f) value = NAN;
  if (format == RPL_E5M2 && size >= 0x7c) value = size & n->mantissa ? NAN : INFINITY;
  return bits > n->size ? -value : value;
}

static int depth_of(int element, int group, int depth, int format) {
  if (narrows[format].bits != 8) return PER_LANE * group + element;
  return HALF_LANE * group + element % HALF_LANE + element / HALF_LANE * (depth / 2);
}

// Sets out->value[k][i] for the `m` rows of A, or columns of B.
static void load(const struct rpl_wave *w, int row, int m, int depth, int format, struct rpl_terms *out) {
  int bits = narrows[format].bits;
  for (int e = 0; e < PER_LANE; e++) {
    int bit = e * bits, at = bit % 32, crosses = at + bits > 32;
    const uint32_t *low = w->vgpr[row + bit / 32], *high = w->vgpr[row + bit / 32 + crosses];
    for (int group = 0; group < RPL_LANES / m; group++) {
      float *values = out->value[depth_of(e, group, depth, format)];
      for (int i = 0; i < m; i++) {
        uint64_t word = (uint64_t)high[m * group + i] << 32 | low[m * group + i];
        values[i] = to_float((uint32_t)(word >> at) & (2 * narrows[format].size + 1), format);
      }
    }
  }
  rpl_set_powers(out, depth, m, power_of_two(1 - narrows[format].bias));
}

// Sets the powers of two of row or column i and group g, at scales[g][i]: NaN is negative.
static void load_scales(const struct rpl_wave *w, int row, uint32_t bits, int byte, int m, double (*scales)[MAX_M]) {
  for (int lane = 0; lane < RPL_LANES; lane++) {
    uint32_t exponent = (row < 0 ? bits : w->vgpr[row][lane]) >> (8 * byte) & 0xff;
    scales[lane / m][lane % m] = exponent == SCALE_NAN ? -1 : ldexp(1, (int)exponent - SCALE_BIAS);
  }
}

int rpl_mfma_narrow(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int src_c, uint32_t c_bits, int m, int k, int format_a,
                    int format_b, int scale_a, uint32_t scale_bits_a, int byte_a, int scale_b, uint32_t scale_bits_b, int byte_b) {
  if ((unsigned)format_a >= RPL_NARROW_FORMATS || (unsigned)format_b >= RPL_NARROW_FORMATS)
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, (uint64_t)format_b << 8 | (uint64_t)format_a);
  struct rpl_terms a, b;
  double scales_a[MAX_GROUPS][MAX_M], scales_b[MAX_GROUPS][MAX_M], scales[MAX_GROUPS * RPL_MAX_EDGE];
  const float *values[RPL_MAX_DEPTH], *powers[RPL_MAX_DEPTH];
  uint32_t out[MAX_M * MAX_M / RPL_LANES][RPL_LANES] = {{0}};
  load(w, src_a, m, k, format_a, &a);
  load(w, src_b, m, k, format_b, &b);
  load_scales(w, scale_a, scale_bits_a, byte_a, m, scales_a);
  load_scales(w, scale_b, scale_bits_b, byte_b, m, scales_b);
  for (int n = 0; n < k; n++) values[n] = b.value[n], powers[n] = b.power[n];
  int groups = RPL_LANES / m, clamps = (w->mode & RPL_FP16_OVERFLOW) != 0, is_narrow = rpl_is_narrow(&a, &b);
  for (int i = 0; i < m; i++) {
    int lane = m * (i / 4 % groups), reg = 4 * (i / 4 / groups) + i % 4;
    uint32_t *c = out[reg] + lane;
    for (int j = 0; j < m; j++) c[j] = src_c < 0 ? c_bits : w->vgpr[src_c + reg][lane + j];
    for (int g = 0; g < groups; g++)
      for (int j = 0; j < m; j++) {
        double first = scales_a[g][i], second = scales_b[g][j];
        scales[RPL_MAX_EDGE * g + j] = first < 0 || second < 0 ? -1 : first * second;
      }
    struct rpl_row row = {c, &a.value[0][i], &a.power[0][i], values, powers, scales, clamps};
    rpl_sum_row(&row, m, k, PER_LANE, RPL_SUM_ALIGNED, is_narrow);
  }
  memcpy(w->vgpr[dst], out, (size_t)(m * m / RPL_LANES) * sizeof out[0]);
  return 0;
}
