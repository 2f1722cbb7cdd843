// Sums of products of the matrix cores: order, width and rounding. The ISA documents do not state them; assumptions and sources are
// listed in tests/builders/matrix_model.py.
#ifndef RPL_MFMA_SUMS_H
#define RPL_MFMA_SUMS_H
#include "wave.h"

enum { RPL_MAX_DEPTH = 128, RPL_MAX_EDGE = 32 };
enum { RPL_KEEPS_F32_DENORMALS = 1 << 4, RPL_FP16_OVERFLOW = 1 << 23 };  // bits of MODE

enum rpl_sum {
  RPL_SUM_FUSED,      // one fused multiply-add per product, in order of K
  RPL_SUM_FLUSHED,    // rounded products, added in pairs (and pairs of pairs), then to C; denormals are zero at each step
  RPL_SUM_ALIGNED,    // a group is added in fixed point relative to its largest exponent, then to C
  RPL_SUM_TWO_HALVES  // as aligned, separately for even and odd products
};

// One operand: `value[k][i]`, and the power of two that its exponent stands for: that of the smallest normal number for denormals,
// 0 for zero. `smallest` and `largest` bound the powers of the numbers that are not zero.
struct rpl_terms {
  float value[RPL_MAX_DEPTH][RPL_MAX_EDGE];
  float power[RPL_MAX_DEPTH][RPL_MAX_EDGE];
  float smallest, largest;
};

// Sets the powers of `count` values per row; `lowest`: the power of the smallest normal number.
void rpl_set_powers(struct rpl_terms *t, int depth, int count, float lowest);

struct rpl_row {  // of a product: C and D, and row i of A as value[k * RPL_MAX_EDGE]; b[k] is a row of B
  uint32_t *c;
  const float *value, *power;
  const float *const *b, *const *b_power;
  const double *scale;  // one per column and group of K, at scale[group * RPL_MAX_EDGE], or NULL; negative: NaN
  int clamps;           // FP16_OVFL: results that overflow are the largest numbers; infinities of A, B and C remain
};

// D = A x B + C for one row with `count` columns, in place, in groups of `group` products. `is_narrow`: see rpl_is_narrow.
void rpl_sum_row(const struct rpl_row *row, int count, int depth, int group, int sum, int is_narrow);
// D = A x B + C in place for `m` rows and columns, 16 or 32, of narrow numbers, as RPL_SUM_ALIGNED in groups of RPL_TILE_GROUP.
enum { RPL_TILE_GROUP = 8, RPL_TILE_EDGE = 16 };
void rpl_sum_tile(uint32_t *const *c, const struct rpl_terms *a, const struct rpl_terms *b, int m, int depth);
// Returns whether float32 can hold the products, and the powers, of two operands exactly: no infinity, NaN or extreme exponent.
int rpl_is_narrow(const struct rpl_terms *a, const struct rpl_terms *b);
#endif
