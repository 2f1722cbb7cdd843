// Aligned sums, of a group of products p (exact) with exponents e (sum of the exponents of the factors), and C:
//   s = sum of p cut to multiples of 2^(E - 24), E the largest e            (two halves: even and odd products; the sum of both is
//                                                                             rounded down to multiples of 2^(larger E - 24))
//   r = s rounded down to multiples of 2^(F - 32) + C rounded down to multiples of 2^(F - 24), F the larger of E and C's exponent
//   D = r, rounded down to 32 bits, then to nearest even as float32
// In the form for two halves, C is zero if its exponent is below F - 25.
#include <float.h>
#include <math.h>
#include "mfma_sums.h"
#include "atomics.h"

enum { LANES = 16, CUT = 24, WIDE = 32, KEPT = 32, F32_BIAS = 127, F64_BIAS = 1023, F64_MANTISSA = 52 };
static const float SMALLEST = 0x1p-50f, LARGEST = 0x1p50f;
static const double LOWEST = 0x1p-126;  // power of the smallest normal float32

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4)));
typedef double doubles __attribute__((vector_size(8 * LANES), aligned(8)));
typedef int64_t longs __attribute__((vector_size(8 * LANES), aligned(8)));

int rpl_is_narrow(const struct rpl_terms *a, const struct rpl_terms *b) {
  return a->smallest >= SMALLEST && a->largest <= LARGEST && b->smallest >= SMALLEST && b->largest <= LARGEST;
}

// ---- sixteen columns ----

static inline __attribute__((always_inline)) words larger_words(words x, words y) {
#if __has_builtin(__builtin_elementwise_max)
  return __builtin_elementwise_max(x, y);
#else
  for (int n = 0; n < LANES; n++) x[n] = x[n] > y[n] ? x[n] : y[n];
  return x;
#endif
}

void rpl_set_powers(struct rpl_terms *t, int depth, int count, float lowest) {
  words smallest = (words){0} + 0x7f800000u, largest = {0}, first = (words){0} + rpl_bits32(lowest);
  for (int k = 0; k < depth; k++) {
    for (int i = count; i < LANES; i++) t->value[k][i] = 0;
    for (int i = 0; i < count; i += LANES) {
      words bits = *(words *)(t->value[k] + i) & 0x7fffffffu, power = bits & 0x7f800000u, is_zero = (words)(bits == 0);
      power = larger_words(power, first) & ~is_zero;
      *(words *)(t->power[k] + i) = power;
      smallest = ~larger_words(~smallest, ~(power | is_zero));
      largest = larger_words(largest, power);
    }
  }
  uint32_t least = smallest[0], most = largest[0];
  for (int n = 1; n < LANES; n++) least = smallest[n] < least ? smallest[n] : least, most = largest[n] > most ? largest[n] : most;
  t->smallest = rpl_f32(least), t->largest = rpl_f32(most);
}

// Positive floats are in the order of their bits.
static inline __attribute__((always_inline)) doubles larger(doubles x, doubles y) {
#if __has_builtin(__builtin_elementwise_max)
  return (doubles)__builtin_elementwise_max((longs)x, (longs)y);
#else
  for (int n = 0; n < LANES; n++) x[n] = x[n] > y[n] ? x[n] : y[n];
  return x;
#endif
}

static inline __attribute__((always_inline)) doubles rounded_down(doubles x) {
#if __has_builtin(__builtin_elementwise_floor)
  return __builtin_elementwise_floor(x);
#else
  for (int n = 0; n < LANES; n++) x[n] = floor(x[n]);
  return x;
#endif
}

static inline __attribute__((always_inline)) floats chosen(ints mask, floats yes, floats no) {
  return (floats)((mask & (ints)yes) | (~mask & (ints)no));
}

static inline __attribute__((always_inline)) doubles inverse(doubles power, int64_t times) {  // 2^times / a power of two
  return (doubles)(((2 * F64_BIAS + times) << F64_MANTISSA) - (longs)power);
}

static inline __attribute__((always_inline)) doubles scaled(doubles power, int64_t times) {  // 2^times * a normal power of two
  return (doubles)((longs)power + times * ((int64_t)1 << F64_MANTISSA));
}

static inline __attribute__((always_inline)) doubles power_of(doubles x) {
  return (doubles)((longs)x & ((int64_t)0x7ff << F64_MANTISSA));
}

// Returns 2^CUT / a power of two, which products of narrow numbers do not fall below.
static inline __attribute__((always_inline)) floats scale_of(words power) {
  return (floats)(((2u * F32_BIAS + CUT) << 23) - larger_words(power, (words)((floats){0} + SMALLEST * SMALLEST)));
}

// Returns the sum of every `step`th product from `from`, cut relative to the largest of them, and the power of the latter.
static inline __attribute__((always_inline)) doubles aligned_products(const struct rpl_row *row, int j, int from, int to, int step,
                                                                      doubles *power) {
  words most = {0};
  ints sum = {0};
  for (int k = from; k < to; k += step)
    most = larger_words(most, (words)(row->power[k * RPL_MAX_EDGE] * *(const floats *)(row->b_power[k] + j)));
  floats scale = scale_of(most);
  for (int k = from; k < to; k += step)
    sum += __builtin_convertvector(row->value[k * RPL_MAX_EDGE] * *(const floats *)(row->b[k] + j) * scale, ints);
  *power = __builtin_convertvector((floats)most, doubles);
  return __builtin_convertvector(sum, doubles) * (*power * 0x1p-24);
}

static inline __attribute__((always_inline)) floats added(floats before, doubles sum, doubles power, int keeps_small) {
  doubles c = __builtin_convertvector(before, doubles), c_power = larger(power_of(c), (doubles){0} + LOWEST);
  doubles most = larger(power, c_power), units = inverse(most, WIDE);
  doubles addend = rounded_down(c * inverse(most, CUT));
  if (!keeps_small) addend = (doubles)((longs)addend & ~(longs)(c_power < scaled(most, -CUT - 1)));
  doubles total = rounded_down(sum * units) + addend * (double)(1 << (WIDE - CUT));
  doubles first = larger(power_of(total), LOWEST * units);
  doubles kept = rounded_down(total * inverse(first, KEPT - 1));
  floats result = __builtin_convertvector(kept * (scaled(first, 1 - KEPT) * scaled(most, -WIDE)), floats);
  ints is_special = (ints)(((ints)before & 0x7f800000) == 0x7f800000);
  return chosen(is_special, before, result);
}

static inline __attribute__((always_inline)) doubles products(const struct rpl_row *row, int j, int from, int to, int in_halves,
                                                              doubles *power) {
  if (!in_halves) return aligned_products(row, j, from, to, 1, power);
  doubles odd_power, even = aligned_products(row, j, from, to, 2, power), odd = aligned_products(row, j, from + 1, to, 2, &odd_power);
  *power = larger(*power, odd_power);
  doubles units = inverse(*power, CUT);
  return (rounded_down(even * units) + rounded_down(odd * units)) * (*power * 0x1p-24);
}

static inline __attribute__((always_inline)) floats scaled_group(const struct rpl_row *row, int j, int from, int to, floats c) {
  doubles power, scale = *(const doubles *)(row->scale + from / (to - from) * RPL_MAX_EDGE + j);
  doubles sum = products(row, j, from, to, 0, &power);
  ints is_nan = __builtin_convertvector((longs)(scale < 0), ints);
  return chosen(is_nan, (floats){0} + NAN, added(c, sum * scale, power * scale, 1));
}

static int is_infinite(uint32_t bits) { return (bits & 0x7fffffffu) == 0x7f800000u; }

static inline __attribute__((always_inline)) void aligned_columns(const struct rpl_row *row, int j, int depth, int group, int in_halves) {
  floats c = *(floats *)(row->c + j);
  for (int from = 0; from < depth; from += group) {
    if (row->scale) {
      c = scaled_group(row, j, from, from + group, c);
      continue;
    }
    doubles power, sum = products(row, j, from, from + group, in_halves, &power);
    c = added(c, sum, power, !in_halves);
  }
  if (row->clamps)
    for (int n = 0; n < LANES; n++)
      if (is_infinite(rpl_bits32(c[n])) && !is_infinite(row->c[j + n])) c[n] = copysignf(FLT_MAX, c[n]);
  *(floats *)(row->c + j) = c;
}

// Groups of eight products of all rows, with those of B in registers.
static inline __attribute__((always_inline)) void aligned_tile(uint32_t *const *c, const struct rpl_terms *a, const struct rpl_terms *b,
                                                               int m, int j, int from) {
  floats value[RPL_TILE_GROUP], power[RPL_TILE_GROUP];
  for (int k = 0; k < RPL_TILE_GROUP; k++) {
    value[k] = *(const floats *)(b->value[from + k] + j);
    power[k] = *(const floats *)(b->power[from + k] + j);
  }
  for (int i = 0; i < m; i++) {
    words most = {0};
    ints sum = {0};
    for (int k = 0; k < RPL_TILE_GROUP; k++) most = larger_words(most, (words)(a->power[from + k][i] * power[k]));
    floats scale = scale_of(most), *row = (floats *)(c[i] + j);
    for (int k = 0; k < RPL_TILE_GROUP; k++) sum += __builtin_convertvector(a->value[from + k][i] * value[k] * scale, ints);
    doubles powers = __builtin_convertvector((floats)most, doubles);
    *row = added(*row, __builtin_convertvector(sum, doubles) * (powers * 0x1p-24), powers, 1);
  }
}

void rpl_sum_tile(uint32_t *const *c, const struct rpl_terms *a, const struct rpl_terms *b, int m, int depth) {
  for (int j = 0; j < m; j += LANES)
    for (int from = 0; from < depth; from += RPL_TILE_GROUP) aligned_tile(c, a, b, m, j, from);
}

// ---- one column, for numbers of any size ----

static double down(double x, double unit) { return floor(x / unit) * unit; }

static double power_of_one(double x) {
  int exponent;
  (void)frexp(x, &exponent);
  return ldexp(1, exponent - 1);
}

// Every `step`th of `count` products from `first`.
static double aligned_sum(const double *product, const double *power, int first, int count, int step, double *most) {
  double sum = 0;
  *most = 0;
  for (int n = first; n < count; n += step) *most = fmax(*most, power[n]);
  for (int n = first; n < count; n += step) sum += *most > 0 ? trunc(product[n] / (*most * 0x1p-24)) : 0;
  return sum * (*most * 0x1p-24);
}

static float added_to(float c, double sum, double power, int keeps_small) {
  double c_power = c == 0 ? LOWEST : fmax(power_of_one(c), LOWEST), most = fmax(power, c_power), unit = most * 0x1p-32;
  double addend = !keeps_small && c_power < most * 0x1p-25 ? 0 : down(c, unit * 256), total = down(sum, unit) + addend;
  return (float)down(total, (total == 0 ? LOWEST : fmax(power_of_one(total), LOWEST)) * 0x1p-31);
}

static float aligned_group(const struct rpl_row *row, int j, int from, int count, int in_halves, float c, double scale) {
  double product[RPL_MAX_DEPTH], power[RPL_MAX_DEPTH], special = c, most, odd_most, sum;
  for (int n = 0; n < count; n++) {
    int k = from + n;
    product[n] = (double)row->value[k * RPL_MAX_EDGE] * row->b[k][j];
    power[n] = (double)row->power[k * RPL_MAX_EDGE] * row->b_power[k][j];
    if (fabs(product[n]) >= 0x1p128) product[n] = copysign(INFINITY, product[n]);
    special += isfinite(product[n]) ? 0 : product[n];
  }
  if (!isfinite(special)) return (float)special;
  if (!in_halves) sum = aligned_sum(product, power, 0, count, 1, &most);
  else {
    double even = aligned_sum(product, power, 0, count, 2, &most), odd = aligned_sum(product, power, 1, count, 2, &odd_most);
    most = fmax(most, odd_most);
    sum = most > 0 ? down(even, most * 0x1p-24) + down(odd, most * 0x1p-24) : 0;
  }
  return added_to(c, sum * scale, most * scale, !in_halves);
}

static void aligned_column(const struct rpl_row *row, int j, int depth, int group, int in_halves) {
  float c = rpl_f32(row->c[j]);
  for (int from = 0; from < depth; from += group) {
    double scale = row->scale ? row->scale[from / group * RPL_MAX_EDGE + j] : 1;
    c = scale < 0 ? NAN : aligned_group(row, j, from, group, in_halves, c, scale);
  }
  int overflows = row->clamps && isinf(c) && !is_infinite(row->c[j]);
  for (int k = 0; k < depth; k++) overflows &= isfinite(row->value[k * RPL_MAX_EDGE]) && isfinite(row->b[k][j]);
  row->c[j] = rpl_bits32(overflows ? copysignf(FLT_MAX, c) : c);
}

// ---- products whose denormals are zero ----

static inline __attribute__((always_inline)) floats flushed(floats x) {
  ints is_small = (ints)(((ints)x & 0x7f800000) == 0);
  return (floats)((ints)x & ~(is_small & 0x7fffffff));
}

static inline __attribute__((always_inline)) floats flushed_product(const struct rpl_row *row, int k, int j) {
  return flushed(row->value[k * RPL_MAX_EDGE] * *(const floats *)(row->b[k] + j));
}

static inline __attribute__((always_inline)) void flushed_columns(const struct rpl_row *row, int j, int depth, int pairs) {
  floats c = *(floats *)(row->c + j);
  c = (floats)((ints)c & ~(ints)(((ints)c & 0x7f800000) == 0));
  for (int k = 0; k < depth; k += 2 * pairs) {
    floats sum = flushed(flushed_product(row, k, j) + flushed_product(row, k + 1, j));
    if (pairs == 2) {
      floats second = flushed(flushed_product(row, k + 2, j) + flushed_product(row, k + 3, j));
      sum = flushed(sum + second);
    }
    c = flushed(c + sum);
  }
  *(floats *)(row->c + j) = c;
}

static void sum_columns(const struct rpl_row *row, int j, int depth, int group, int sum) {
  if (sum == RPL_SUM_TWO_HALVES) aligned_columns(row, j, depth, group, 1);
  else if (sum == RPL_SUM_FLUSHED && group == 4) flushed_columns(row, j, depth, 2);
  else if (sum == RPL_SUM_FLUSHED) flushed_columns(row, j, depth, 1);
  else if (group == 8) aligned_columns(row, j, depth, 8, 0);  // a constant, for loops without counters
  else aligned_columns(row, j, depth, group, 0);
}

void rpl_sum_row(const struct rpl_row *row, int count, int depth, int group, int sum, int is_narrow) {
  if (sum != RPL_SUM_FLUSHED && !is_narrow) {
    for (int j = 0; j < count; j++) aligned_column(row, j, depth, group, sum == RPL_SUM_TWO_HALVES);
    return;
  }
  if (count < LANES) {
    uint32_t c[LANES] = {0};
    struct rpl_row wide = *row;
    memcpy(c, row->c, (size_t)count * sizeof *c);
    wide.c = c;
    sum_columns(&wide, 0, depth, group, sum);
    memcpy(row->c, c, (size_t)count * sizeof *c);
    return;
  }
  for (int j = 0; j < count; j += LANES) sum_columns(row, j, depth, group, sum);
}
