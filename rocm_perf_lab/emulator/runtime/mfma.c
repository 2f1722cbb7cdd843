// Matrix core: D = A x B + C for `blocks` independent M x N x K products over the 64 lanes; EXEC is ignored.
// Lane layouts of AMD's matrix instruction calculator, with E = elements of A per lane:
//   A[i][k] of block b: lane i + M * (b + blocks * (k / E)), element k % E; B[k][j] alike with j.
//   C, D of 32-bit elements: rows in groups of four; group q = i / 4 + b * M / 4 is in lanes j + N * (q % (64 / N)),
//   registers 4 * (q / (64 / N)) + i % 4.  64-bit: lane j + N * (b + blocks * (i % G)), pair i / G, G = 64 / (N * blocks).
// CBSZ and ABID broadcast one block of A to 2^CBSZ neighbours, BLGP selects lanes of B (for F64: negates A, B, C).
// SMFMAC: of every four neighbours along K, A holds the two selected by a pair of 2-bit indices. The indices of a lane's elements
// are in the same lane of one register, lowest element first; it holds several sets, and ABID selects one if CBSZ is 0.
#include <math.h>
#include "atomics.h"

enum { MAX_K = 64, MAX_SPARSE_K = 64, MAX_EDGE = 32, MAX_F64_EDGE = 16, MAX_F64_PAIRS = 4, SPARSE_BYTES = 8, INDEX_BITS = 2, SPARSE_GROUP = 4 };
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

static float to_xf32(uint32_t bits) {  // 10 mantissa bits, to nearest even
  if ((bits & 0x7f800000u) == 0x7f800000u) return rpl_f32(bits);
  return rpl_f32((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
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

static inline __attribute__((always_inline)) float without_denormals(float value) {
  uint32_t bits = rpl_bits32(value);
  return rpl_f32(bits & 0x7f800000u ? bits : bits & 0x80000000u);
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
      bits &= bits & 0x7c00 ? 0xffff : 0x8000;
      memcpy(&half, &bits, 2);
      return (float)half;
    case RPL_FLUSHED_BF16: return without_denormals(rpl_f32(bits << 16));
    case RPL_XF32: return to_xf32(bits);
    case RPL_I8E: return (float)(int8_t)bits;
    default: return rpl_f32(bits);
  }
}

// ---- operands ----

struct shape { int m, k, blocks, per_lane; };

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
                                                            int type, int m, float (*restrict out)[MAX_EDGE]) {
  for (int k = 0, first = operand_lane(s, 0, block, 0); k < s->k; first += s->m * s->blocks)
    for (int element = 0; element < s->per_lane; element++, k++) {
      int byte = element * bytes_of(type), shift = 8 * (byte % 4);
      const uint32_t *bits = w->vgpr[row + byte / 4];
      if (blgp) for (int i = 0; i < m; i++) out[k][i] = to_float(bits[b_lane(first + i, blgp)] >> shift, type);
      else for (int i = 0; i < m; i++) out[k][i] = to_float(bits[first + i] >> shift, type);
    }
}

static inline __attribute__((always_inline)) void load_as(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp,
                                                          int type, float (*out)[MAX_EDGE]) {
  if (blgp) load_rows(w, row, s, block, blgp, type, s->m, out);
  else if (s->m == 16) load_rows(w, row, s, block, 0, type, 16, out);  // constant bounds: vector code without loops
  else if (s->m == 32) load_rows(w, row, s, block, 0, type, 32, out);
  else load_rows(w, row, s, block, 0, type, s->m, out);
}

static void load_operand(const struct rpl_wave *w, int row, const struct shape *s, int block, int blgp, int type, float (*out)[MAX_EDGE]) {
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
static inline __attribute__((always_inline)) void multiply_tile(uint32_t *const *c, float (*a)[MAX_EDGE], float (*b)[MAX_EDGE], int i,
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

static void multiply_small(uint32_t *const *c, float (*a)[MAX_EDGE], float (*b)[MAX_EDGE], int m, int depth) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) {
      float sum = rpl_f32(c[i][j]);
      for (int k = 0; k < depth; k++) sum = fmaf(a[k][i], b[k][j], sum);
      c[i][j] = rpl_bits32(sum);
    }
}

static void multiply_floats(uint32_t *const *c, float (*a)[MAX_EDGE], float (*b)[MAX_EDGE], int m, int depth) {
  if (m < TILE_COLUMNS) {
    multiply_small(c, a, b, m, depth);
    return;
  }
  for (int i = 0; i < m; i += TILE_ROWS)
    for (int j = 0; j < m; j += TILE_COLUMNS) multiply_tile(c, a, b, i, j, depth);
}

// Multiplies in place: row i of C and D is c[i]. Sums of products of bytes are exact as floats: at most 2^14 * MAX_K = 2^20.
static void product(uint32_t *const *c, float (*a)[MAX_EDGE], float (*b)[MAX_EDGE], int m, int depth, int is_int) {
  if (!is_int) {
    multiply_floats(c, a, b, m, depth);
    return;
  }
  uint32_t sums[MAX_EDGE][MAX_EDGE] = {0}, *rows[MAX_EDGE];
  for (int i = 0; i < m; i++) rows[i] = sums[i];
  multiply_floats(rows, a, b, m, depth);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) c[i][j] += (uint32_t)(int32_t)rpl_f32(sums[i][j]);
}

static void flush_denormals(uint32_t *bits, size_t count) {
  for (size_t n = 0; n < count; n++) bits[n] = rpl_bits32(without_denormals(rpl_f32(bits[n])));
}

static void multiply_blocks(struct rpl_wave *w, int dst, int src_a, int src_b, int src_c, uint32_t c_bits, const struct shape *s,
                            int element_a, int element_b, int cbsz, int abid, int blgp) {
  size_t bytes = (size_t)(s->m * s->m * s->blocks / RPL_LANES) * sizeof w->vgpr[0];
  uint32_t out[RPL_LANES][RPL_LANES];  // [register][lane]: D may overlap A, B and C
  out[0][0] = c_bits;  // there is at least one register
  if (src_c >= 0) memcpy(out, w->vgpr[src_c], bytes);
  else for (size_t n = 0; n < bytes / sizeof out[0][0]; n++) out[0][n] = c_bits;
  int flushes = element_a == RPL_FLUSHED_F16 || element_a == RPL_FLUSHED_BF16;
  if (flushes) flush_denormals(out[0], bytes / sizeof out[0][0]);
  for (int block = 0; block < s->blocks; block++) {
    float a[MAX_K][MAX_EDGE], b[MAX_K][MAX_EDGE];
    uint32_t *c[MAX_EDGE];
    int block_of_a = (block & ~((1 << cbsz) - 1)) | (cbsz ? abid : 0), lane, reg;
    load_operand(w, src_a, s, block_of_a, 0, element_a, a);
    load_operand(w, src_b, s, block, blgp, element_b, b);
    for (int i = 0; i < s->m; i++) {
      place_of_row(s, i, block, &lane, &reg);
      c[i] = &out[reg][lane];
    }
    product(c, a, b, s->m, s->k, element_a == RPL_I8E);
  }
  if (flushes) flush_denormals(out[0], bytes / sizeof out[0][0]);
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
  struct shape s = {m, k, blocks, m * k * blocks / RPL_LANES};
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

static void multiply_sparse(struct rpl_wave *w, int dst, int src_a, int src_b, int indices, int first_bit, const struct shape *sa,
                            const struct shape *sb, int element_a, int element_b) {
  float a[MAX_K][MAX_EDGE], b[MAX_SPARSE_K][MAX_EDGE];
  uint32_t out[MAX_EDGE * MAX_EDGE / RPL_LANES][RPL_LANES];
  load_operand(w, src_a, sa, 0, 0, element_a, a);
  load_operand(w, src_b, sb, 0, 0, element_b, b);
  for (int i = 0; i < sa->m; i++) {
    int lane, reg;
    place_of_row(sa, i, 0, &lane, &reg);
    uint32_t *row = out[reg] + lane, *before = w->vgpr[dst + reg] + lane;
    memcpy(row, before, (size_t)sa->m * sizeof *row);
    for (int e = 0; e < sa->k; e++) {
      const float *column = b[sparse_k(w, indices, first_bit, sa, i, e)];
      for (int j = 0; j < sa->m; j++) {
        if (element_a == RPL_I8E) row[j] += (uint32_t)((int32_t)a[e][i] * (int32_t)column[j]);
        else row[j] = rpl_bits32(fmaf(a[e][i], column[j], rpl_f32(row[j])));
      }
    }
  }
  size_t bytes = (size_t)(sa->m * sa->m / RPL_LANES) * sizeof out[0];
  memcpy(w->vgpr[dst], out, bytes);  // NOLINT(clang-analyzer-unix.cstring.UninitializedRead): all rows are set
}

int rpl_smfmac(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int indices, int m, int k, int element_a, int element_b,
               int cbsz, int abid) {
  int elements = SPARSE_BYTES / bytes_of(element_a), sets = 32 / (INDEX_BITS * elements);
  if (bytes_of(element_a) > 2 || bytes_of(element_a) != bytes_of(element_b) || m * k / 2 != elements * RPL_LANES)
    return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, 0);
  struct shape a = {m, k / 2, 1, elements}, b = {m, k, 1, 2 * elements};
  int set = cbsz ? 0 : abid % sets;
  multiply_sparse(w, dst, src_a, src_b, indices, INDEX_BITS * elements * set, &a, &b, element_a, element_b);
  return 0;
}
