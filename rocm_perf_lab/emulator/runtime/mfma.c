// Matrix core: D = A x B + C for `blocks` independent M x N x K products over the 64 lanes; EXEC is ignored.
// Lane layouts of AMD's matrix instruction calculator, with E = elements of A per lane:
//   A[i][k] of block b: lane i + M * (b + blocks * (k / E)), element k % E; B[k][j] alike with j.
//   C, D of 32-bit elements: rows in groups of four; group q = i / 4 + b * M / 4 is in lanes j + N * (q % (64 / N)),
//   registers 4 * (q / (64 / N)) + i % 4.  64-bit: lane j + N * (b + blocks * (i % G)), pair i / G, G = 64 / (N * blocks).
// CBSZ and ABID broadcast one block of A to 2^CBSZ neighbours, BLGP selects lanes of B (for F64: negates A, B, C).
// SMFMAC: of every four neighbours along K, A holds the two selected by a pair of 2-bit indices. The indices of a lane's elements
// are in the same lane of one register, lowest element first; it holds several sets, and ABID selects one if CBSZ is 0. If a lane has
// 32 bytes of B (CDNA4), the second half of them is of the second half of K.
#include <float.h>
#include <math.h>
#include "atomics.h"
#include "mfma_sums.h"

enum { MAX_K = 64, MAX_F64_EDGE = 16, MAX_F64_PAIRS = 4, INDEX_BITS = 2, SPARSE_GROUP = 4, PIECE_BYTES = 16 };
enum { TILE_ROWS = 8, TILE_COLUMNS = 16 };  // of a product in registers

// ---- element types ----

// FNUZ: no infinities, 0x80 is the only NaN. Without branches, for vector code.
static inline __attribute__((always_inline)) float from_fp8(uint8_t bits, int mantissa_bits, int bias) {
  uint32_t size = bits & 0x7f, mantissa = bits & ((1u << mantissa_bits) - 1);
  float normal = rpl_f32((size << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23));
  float denormal = (float)mantissa * rpl_f32((uint32_t)(127 + 1 - bias - mantissa_bits) << 23);
  uint32_t magnitude = rpl_bits32(size >> mantissa_bits ? normal : denormal) | (uint32_t)(bits & 0x80) << 24;
  return rpl_f32(bits == 0x80 ? 0x7fc00000u : magnitude);
}

static float to_xf32(uint32_t bits) {  // 10 mantissa bits; the others are cut
  uint32_t is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return rpl_f32((bits & ~0x1fffu) | is_nan << 22);
}

// OCP: BF8 has infinities, FP8 only NaN (0x7f). Without branches, for vector code.
static inline __attribute__((always_inline)) float from_ocp(uint8_t bits, int mantissa_bits, int bias) {
  uint32_t size = bits & 0x7f, mantissa = bits & ((1u << mantissa_bits) - 1);
  float normal = rpl_f32((size << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23));
  float denormal = (float)mantissa * rpl_f32((uint32_t)(127 + 1 - bias - mantissa_bits) << 23);
  uint32_t magnitude = rpl_bits32(size >> mantissa_bits ? normal : denormal);
  uint32_t is_nan = mantissa_bits == 3 ? size == 0x7f : size > 0x7c, is_infinite = mantissa_bits == 2 && size == 0x7c;
  magnitude = is_nan ? 0x7fc00000u : is_infinite ? 0x7f800000u : magnitude;
  return rpl_f32(magnitude | (uint32_t)(bits & 0x80) << 24);
}

// Zeros are positive, denormal or not.
static inline __attribute__((always_inline)) float without_denormals(float value) {
  uint32_t bits = rpl_bits32(value);
  return rpl_f32(bits & 0x7f800000u ? bits : 0);
}

static int bytes_of(int element) {
  switch (element) {
    case RPL_F16: case RPL_BF16: case RPL_FLUSHED_F16: case RPL_FLUSHED_BF16: return 2;
    case RPL_F64: return 8;
    case RPL_I8E: case RPL_FP8: case RPL_BF8: case RPL_OCP_FP8: case RPL_OCP_BF8: return 1;
    default: return 4;
  }
}

static inline __attribute__((always_inline)) float to_float(uint32_t bits, int type) {
  _Float16 half;
  switch (type) {
    case RPL_F16: memcpy(&half, &bits, 2); return (float)half;
    case RPL_BF16: return rpl_f32(bits << 16);
    case RPL_FP8: return from_fp8((uint8_t)bits, 3, 8);
    case RPL_BF8: return from_fp8((uint8_t)bits, 2, 16);
    case RPL_OCP_FP8: return from_ocp((uint8_t)bits, 3, 7);
    case RPL_OCP_BF8: return from_ocp((uint8_t)bits, 2, 15);
    case RPL_FLUSHED_F16:
      bits &= bits & 0x7c00 ? 0xffff : 0;
      memcpy(&half, &bits, 2);
      return (float)half;
    case RPL_FLUSHED_BF16: return without_denormals(rpl_f32(bits << 16));
    case RPL_XF32: return to_xf32(bits);
    case RPL_I8E: return (float)(int8_t)bits;
    default: return rpl_f32(bits);
  }
}

// ---- operands ----

struct shape { int m, k, blocks, per_lane, pieces; };  // pieces: parts of a lane's elements, each from another part of K

static int operand_lane(const struct shape *s, int i, int block, int k) {
  return i + s->m * (block + s->blocks * (k / s->per_lane));
}

static int b_lane(int lane, int blgp) {
  switch (blgp) {
    case 1: return lane & 31;
    case 2: return 32 | (lane & 31);
    case 3: return (lane + 16) % RPL_LANES;
    case 4: case 5: case 6: case 7: return 16 * (blgp - 4) | (lane & 15);
    default: return lane;
  }
}

// Rows k of a block: out[k][i] for the `m` values i of one operand, which are in adjacent lanes unless BLGP permutes them.
static inline __attribute__((always_inline)) void load_rows(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp,
                                                            int type, int m, float (*restrict out)[RPL_MAX_EDGE]) {
  int run = s->per_lane / s->pieces, first = operand_lane(s, 0, block, 0);
  for (int group = 0; group < s->k / s->per_lane; group++, first += s->m * s->blocks)
    for (int element = 0; element < s->per_lane; element++) {
      int k = run * group + element % run + element / run * (s->k / s->pieces);
      int byte = element * bytes_of(type), shift = 8 * (byte % 4);
      const uint32_t *bits = w->vgpr[row + byte / 4];
      if (blgp) for (int i = 0; i < m; i++) out[k][i] = to_float(bits[b_lane(first + i, blgp)] >> shift, type);
      else for (int i = 0; i < m; i++) out[k][i] = to_float(bits[first + i] >> shift, type);
    }
}

static inline __attribute__((always_inline)) void load_as(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp,
                                                          int type, float (*out)[RPL_MAX_EDGE]) {
  if (blgp) load_rows(w, row, s, block, blgp, type, s->m, out);
  else if (s->m == 16) load_rows(w, row, s, block, 0, type, 16, out);  // constant bounds: vector code without loops
  else if (s->m == 32) load_rows(w, row, s, block, 0, type, 32, out);
  else load_rows(w, row, s, block, 0, type, s->m, out);
}

static void load_operand(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp, int type, float (*out)[RPL_MAX_EDGE]) {
  switch (type) {  // a loop per type without branches in the conversion
    case RPL_F16: load_as(w, row, s, block, blgp, RPL_F16, out); return;
    case RPL_BF16: load_as(w, row, s, block, blgp, RPL_BF16, out); return;
    case RPL_F32: load_as(w, row, s, block, blgp, RPL_F32, out); return;
    case RPL_I8E: load_as(w, row, s, block, blgp, RPL_I8E, out); return;
    case RPL_FP8: load_as(w, row, s, block, blgp, RPL_FP8, out); return;
    case RPL_BF8: load_as(w, row, s, block, blgp, RPL_BF8, out); return;
    case RPL_OCP_FP8: load_as(w, row, s, block, blgp, RPL_OCP_FP8, out); return;
    case RPL_OCP_BF8: load_as(w, row, s, block, blgp, RPL_OCP_BF8, out); return;
    case RPL_FLUSHED_F16: load_as(w, row, s, block, blgp, RPL_FLUSHED_F16, out); return;
    case RPL_FLUSHED_BF16: load_as(w, row, s, block, blgp, RPL_FLUSHED_BF16, out); return;
    default: load_as(w, row, s, block, blgp, type, out);
  }
}

// Returns the first lane of row i of C and D of a block; its m columns are adjacent lanes of one register.
static void place_of_row(const struct shape *s, int i, int block, int *lane, int *reg) {
  unsigned groups = RPL_LANES >> __builtin_ctz((unsigned)s->m), q = (unsigned)(i / 4 + block * s->m / 4);  // powers of two
  *lane = s->m * (int)(q & (groups - 1));
  *reg = (int)(4 * (q >> __builtin_ctz(groups))) + i % 4;
}

// ---- products ----

typedef float floats __attribute__((vector_size(4 * TILE_COLUMNS), aligned(4)));

static inline __attribute__((always_inline)) floats fused(float a, floats b, floats c) {
#if __has_builtin(__builtin_elementwise_fma)
  return __builtin_elementwise_fma(a - (floats){0}, b, c);
#else
  for (int n = 0; n < TILE_COLUMNS; n++) c[n] = fmaf(a, b[n], c[n]);
  return c;
#endif
}

// C += A x B for TILE_ROWS rows from `i` and TILE_COLUMNS columns from `j`, in the order of k. The tile stays in registers.
static inline __attribute__((always_inline)) void multiply_tile(uint32_t *const *c, float (*a)[RPL_MAX_EDGE], float (*b)[RPL_MAX_EDGE], int i,
                                                                int j, int depth) {
  floats s0 = *(floats *)(c[i] + j), s1 = *(floats *)(c[i + 1] + j), s2 = *(floats *)(c[i + 2] + j), s3 = *(floats *)(c[i + 3] + j);
  floats s4 = *(floats *)(c[i + 4] + j), s5 = *(floats *)(c[i + 5] + j), s6 = *(floats *)(c[i + 6] + j), s7 = *(floats *)(c[i + 7] + j);
  for (int k = 0; k < depth; k++) {
    floats row = *(floats *)(b[k] + j);
    const float *column = a[k] + i;
    s0 = fused(column[0], row, s0), s1 = fused(column[1], row, s1), s2 = fused(column[2], row, s2), s3 = fused(column[3], row, s3);
    s4 = fused(column[4], row, s4), s5 = fused(column[5], row, s5), s6 = fused(column[6], row, s6), s7 = fused(column[7], row, s7);
  }
  *(floats *)(c[i] + j) = s0, *(floats *)(c[i + 1] + j) = s1, *(floats *)(c[i + 2] + j) = s2, *(floats *)(c[i + 3] + j) = s3;
  *(floats *)(c[i + 4] + j) = s4, *(floats *)(c[i + 5] + j) = s5, *(floats *)(c[i + 6] + j) = s6, *(floats *)(c[i + 7] + j) = s7;
}

static void multiply_small(uint32_t *const *c, float (*a)[RPL_MAX_EDGE], float (*b)[RPL_MAX_EDGE], int m, int depth) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) {
      float sum = rpl_f32(c[i][j]);
      for (int k = 0; k < depth; k++) sum = fmaf(a[k][i], b[k][j], sum);
      c[i][j] = rpl_bits32(sum);
    }
}

static void multiply_floats(uint32_t *const *c, float (*a)[RPL_MAX_EDGE], float (*b)[RPL_MAX_EDGE], int m, int depth) {
  if (m < TILE_COLUMNS) {
    multiply_small(c, a, b, m, depth);
    return;
  }
  for (int i = 0; i < m; i += TILE_ROWS)
    for (int j = 0; j < m; j += TILE_COLUMNS) multiply_tile(c, a, b, i, j, depth);
}

// Sums of products of bytes are exact as floats: at most 2^14 * RPL_MAX_DEPTH = 2^21.
static void multiply_bytes(uint32_t *const *c, struct rpl_terms *a, struct rpl_terms *b, int m, int depth) {
  uint32_t sums[RPL_MAX_EDGE][RPL_MAX_EDGE] = {0}, *rows[RPL_MAX_EDGE];
  for (int i = 0; i < m; i++) rows[i] = sums[i];
  multiply_floats(rows, a->value, b->value, m, depth);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) c[i][j] += (uint32_t)(int32_t)rpl_f32(sums[i][j]);
}

// How a matrix core adds products of an element type: enum rpl_sum, size of a group, power of the smallest normal number.
struct sum { int kind, group; float lowest; };

static struct sum sum_of(int element, const struct shape *s) {
  int two = s->k < 8 ? s->k : 8;
  switch (element) {
    case RPL_F16: return (struct sum){RPL_SUM_ALIGNED, two, 0x1p-14f};
    case RPL_BF16: return (struct sum){RPL_SUM_ALIGNED, two, 0x1p-126f};
    case RPL_XF32: return (struct sum){RPL_SUM_ALIGNED, 4, 0x1p-126f};
    case RPL_FP8: return (struct sum){RPL_SUM_TWO_HALVES, 16, 0x1p-7f};
    case RPL_BF8: return (struct sum){RPL_SUM_TWO_HALVES, 16, 0x1p-15f};
    case RPL_OCP_FP8: return (struct sum){RPL_SUM_TWO_HALVES, 16, 0x1p-6f};
    case RPL_OCP_BF8: return (struct sum){RPL_SUM_TWO_HALVES, 16, 0x1p-14f};
    case RPL_FLUSHED_F16: case RPL_FLUSHED_BF16: return (struct sum){RPL_SUM_FLUSHED, s->per_lane, 0x1p-126f};
    default: return (struct sum){RPL_SUM_FUSED, 1, 0};
  }
}

static void load_terms(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp, int element, struct rpl_terms *out) {
  load_operand(w, row, s, block, blgp, element, out->value);
  struct sum sum = sum_of(element, s);
  if (sum.lowest > 0) rpl_set_powers(out, s->k, s->m, sum.lowest);
  if (element == RPL_F32 && !(w->mode & RPL_KEEPS_F32_DENORMALS))
    for (int k = 0; k < s->k; k++)
      for (int i = 0; i < s->m; i++) out->value[k][i] *= fabsf(out->value[k][i]) < FLT_MIN ? 0.0f : 1.0f;
}

// Multiplies in place: row i of C and D is c[i].
static void product(uint32_t *const *c, struct rpl_terms *a, struct rpl_terms *b, const struct shape *s, int element) {
  struct sum sum = sum_of(element, s);
  if (element == RPL_I8E) {
    multiply_bytes(c, a, b, s->m, s->k);
    return;
  }
  if (sum.kind == RPL_SUM_FUSED) {
    multiply_floats(c, a->value, b->value, s->m, s->k);
    return;
  }
  const float *values[RPL_MAX_DEPTH], *powers[RPL_MAX_DEPTH];
  int is_narrow = sum.kind != RPL_SUM_FLUSHED && rpl_is_narrow(a, b);
  if (is_narrow && sum.kind == RPL_SUM_ALIGNED && sum.group == RPL_TILE_GROUP && s->m >= RPL_TILE_EDGE) {
    rpl_sum_tile(c, a, b, s->m, s->k);
    return;
  }
  for (int k = 0; k < s->k; k++) values[k] = b->value[k], powers[k] = b->power[k];
  for (int i = 0; i < s->m; i++) {
    struct rpl_row row = {c[i], &a->value[0][i], &a->power[0][i], values, powers, NULL, 0};
    rpl_sum_row(&row, s->m, s->k, sum.group, sum.kind, is_narrow);
  }
}

static void multiply_blocks(struct rpl_wave *w, int dst, int src_a, int src_b, int src_c, uint32_t c_bits, const struct shape *s,
                            int element_a, int element_b, int cbsz, int abid, int blgp) {
  size_t bytes = (size_t)(s->m * s->m * s->blocks / RPL_LANES) * sizeof w->vgpr[0];
  uint32_t out[RPL_LANES][RPL_LANES];  // [register][lane]: D may overlap A, B and C
  out[0][0] = c_bits;  // there is at least one register
  if (src_c >= 0) memcpy(out, w->vgpr[src_c], bytes);
  else for (size_t n = 0; n < bytes / sizeof out[0][0]; n++) out[0][n] = c_bits;
  for (int block = 0; block < s->blocks; block++) {
    struct rpl_terms a, b;
    uint32_t *c[RPL_MAX_EDGE];
    int block_of_a = (block & ~((1 << cbsz) - 1)) | (cbsz ? abid : 0), lane, reg;
    load_terms(w, src_a, s, block_of_a, 0, element_a, &a);
    load_terms(w, src_b, s, block, blgp, element_b, &b);
    for (int i = 0; i < s->m; i++) {
      place_of_row(s, i, block, &lane, &reg);
      c[i] = &out[reg][lane];
    }
    product(c, &a, &b, s, element_a);
  }
  memcpy(w->vgpr[dst], out, bytes);
}

static void multiply_f64(struct rpl_wave *w, int dst, int src_a, int src_b, int src_c, uint64_t c_bits, const struct shape *s, int negate) {
  double a[RPL_LANES], b[RPL_LANES], out[RPL_LANES][MAX_F64_PAIRS];
  int groups = RPL_LANES / (s->m * s->blocks), pairs = s->m / groups;
  for (uint64_t l = 0; l < RPL_LANES; l++) {
    double first = rpl_f64(rpl_pair(w, src_a, l)), second = rpl_f64(rpl_pair(w, src_b, l));
    a[l] = negate & 1 ? -first : first;
    b[l] = negate & 2 ? -second : second;
  }
  for (int block = 0; block < s->blocks; block++)
    for (int i = 0; i < s->m; i++) {
      int row = s->m * (block + s->blocks * (i % groups)), pair = i / groups;
      double sum[MAX_F64_EDGE];
      for (int j = 0; j < s->m; j++) {
        sum[j] = rpl_f64(src_c < 0 ? c_bits : rpl_pair(w, src_c + 2 * pair, (uint64_t)row + (uint64_t)j));
        if (negate & 4) sum[j] = -sum[j];
      }
      for (int k = 0; k < s->k; k++) {
        double factor = a[operand_lane(s, i, block, k)];
        const double *column = b + operand_lane(s, 0, block, k);
        for (int j = 0; j < s->m; j++) sum[j] = fma(factor, column[j], sum[j]);
      }
      for (int j = 0; j < s->m; j++) out[row + j][pair] = sum[j];
    }
  for (int l = 0; l < RPL_LANES; l++)
    for (int p = 0; p < pairs; p++) {
      uint64_t bits = rpl_bits64(out[l][p]);  // NOLINT(clang-analyzer-core.CallAndMessage): the blocks cover all lanes
      w->vgpr[dst + 2 * p][l] = (uint32_t)bits;
      w->vgpr[dst + 2 * p + 1][l] = (uint32_t)(bits >> 32);
    }
}

static int supported(int m, int n, int k, int blocks, int element_a, int element_b, int cbsz) {
  int elements = m * k * blocks;
  if (m != n || (m != 4 && m != 16 && m != 32) || elements % RPL_LANES || k > MAX_K) return 0;
  if (bytes_of(element_a) != bytes_of(element_b) || m * m * blocks % RPL_LANES) return 0;
  if (element_a == RPL_F64) return cbsz == 0 && elements == RPL_LANES && m < 32;
  return 1 << cbsz <= blocks;
}

int rpl_mfma(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int src_c, uint64_t c_bits, int m, int n, int k, int blocks,
             int element_a, int element_b, int element_out, int cbsz, int abid, int blgp) {
  (void)element_out;  // follows from the inputs: 32-bit integer for I8, F64 for F64, else F32
  if (!supported(m, n, k, blocks, element_a, element_b, cbsz))
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, (uint64_t)blgp << 8 | (uint64_t)cbsz);
  struct shape s = {m, k, blocks, m * k * blocks / RPL_LANES, 1};
  if (element_a == RPL_F64) multiply_f64(w, dst, src_a, src_b, src_c, c_bits, &s, blgp);
  else multiply_blocks(w, dst, src_a, src_b, src_c, (uint32_t)c_bits, &s, element_a, element_b, cbsz, abid, blgp);
  return 0;
}

// ---- sparse products ----

// Returns the index along K of the stored element `e` of row i.
static int sparse_k(const struct rpl_wave *w, int indices, int first_bit, const struct shape *a, int i, int e) {
  int in_lane = e % a->per_lane;
  uint32_t index = w->vgpr[indices][operand_lane(a, i, 0, e)] >> (first_bit + INDEX_BITS * in_lane) & (SPARSE_GROUP - 1);
  return SPARSE_GROUP * (e / 2) + (int)index;
}

static void add_bytes(uint32_t *row, const float *const *b, const struct rpl_terms *a, int i, const struct shape *s, int clamps) {
  for (int j = 0; j < s->m; j++) {
    int64_t sum = (int32_t)row[j];
    for (int e = 0; e < s->k; e++) sum += (int64_t)(a->value[e][i] * b[e][j]);
    if (clamps) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    row[j] = (uint32_t)sum;
  }
}

static void multiply_sparse(struct rpl_wave *w, int dst, int src_a, int src_b, int indices, int first_bit, const struct shape *sa,
                            const struct shape *sb, int element_a, int element_b, int clamps) {
  struct rpl_terms a, b;
  uint32_t out[RPL_MAX_EDGE * RPL_MAX_EDGE / RPL_LANES][RPL_LANES] = {{0}};
  load_terms(w, src_a, sa, 0, 0, element_a, &a);
  load_terms(w, src_b, sb, 0, 0, element_b, &b);
  struct sum sum = sum_of(element_a, sa);
  int is_narrow = sum.lowest > 0 && rpl_is_narrow(&a, &b);
  for (int i = 0; i < sa->m; i++) {
    const float *values[RPL_MAX_DEPTH], *powers[RPL_MAX_DEPTH];
    int lane, reg;
    place_of_row(sa, i, 0, &lane, &reg);
    uint32_t *row = out[reg] + lane, *before = w->vgpr[dst + reg] + lane;
    memcpy(row, before, (size_t)sa->m * sizeof *row);
    for (int e = 0; e < sa->k; e++) {
      int k = sparse_k(w, indices, first_bit, sa, i, e);
      values[e] = b.value[k], powers[e] = b.power[k];
    }
    if (element_a == RPL_I8E) {
      add_bytes(row, values, &a, i, sa, clamps);
      continue;
    }
    struct rpl_row terms = {row, &a.value[0][i], &a.power[0][i], values, powers, NULL, clamps};
    rpl_sum_row(&terms, sa->m, sa->k, sum.group, sum.kind, is_narrow);
  }
  size_t bytes = (size_t)(sa->m * sa->m / RPL_LANES) * sizeof out[0];
  memcpy(w->vgpr[dst], out, bytes);
}

int rpl_smfmac(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int indices, int m, int k, int element_a, int element_b,
               int cbsz, int abid, int clamps) {
  int elements = m * k / 2 / RPL_LANES, bytes = elements * bytes_of(element_a);
  if (bytes_of(element_a) > 2 || bytes_of(element_a) != bytes_of(element_b) || (bytes != PIECE_BYTES / 2 && bytes != PIECE_BYTES))
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, 0);
  struct shape a = {m, k / 2, 1, elements, 1}, b = {m, k, 1, 2 * elements, 2 * bytes / PIECE_BYTES};
  int sets = 32 / (INDEX_BITS * elements), set = cbsz ? 0 : abid % sets;
  clamps = clamps && (w->mode & RPL_FP16_OVERFLOW);
  multiply_sparse(w, dst, src_a, src_b, indices, INDEX_BITS * elements * set, &a, &b, element_a, element_b, clamps);
  return 0;
}
