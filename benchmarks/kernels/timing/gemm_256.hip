// Matrix product with one workgroup of four wavefronts per 256 x 256 block of C, f16 or bf16, A (m x k) and B (n x k) both
// contiguous along k. Each step multiplies 64 of k in four regions, one per quadrant of 128 x 128. A region also reads the next
// operand from LDS, stores the operand of the next step to LDS and loads that of the step after it. LDS (64 KB) holds one step.
//
// READ, STORE, LOAD: include the LDS reads, LDS stores and global loads of the loop. PER_PHASE: rows of LDS with the same swizzle.
// INTERLEAVE: 0 leaves the order to the compiler; 1 puts two matrix instructions between LDS accesses and four between global
// loads; 2 also puts the remaining ones between the reads and the stores. BARRIERS: 2 or 3 per step.
#include <hip/hip_runtime.h>
#ifndef READ
#define READ 1
#endif
#ifndef STORE
#define STORE 1
#endif
#ifndef LOAD
#define LOAD 1
#endif
#ifndef PER_PHASE
#define PER_PHASE 2
#endif
#ifndef GROUP_M
#define GROUP_M 4
#endif
#ifndef INTERLEAVE
#define INTERLEAVE 0
#endif
#ifndef BARRIERS
#define BARRIERS 3
#endif
#ifndef BF16
#define BF16 0
#endif
#ifndef BUFFER_LOADS
#define BUFFER_LOADS 1
#endif
#if BF16
typedef short element_t;
#else
typedef _Float16 element_t;
#endif
typedef element_t element4 __attribute__((ext_vector_type(4)));
typedef element_t element8 __attribute__((ext_vector_type(8)));
typedef float float4_t __attribute__((ext_vector_type(4)));
typedef unsigned uint4_t __attribute__((ext_vector_type(4)));

__device__ inline float4_t multiply_add(element4 x, element4 y, float4_t acc) {
#if BF16
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, acc, 0, 0, 0);
#else
  return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, acc, 0, 0, 0);
#endif
}

// Blocks are renumbered for eight dies, then in groups of GROUP_M rows of blocks.
__device__ inline void place(int blocks_m, int blocks_n, int* m, int* n) {
  const int blocks = blocks_m * blocks_n, die = blockIdx.x % 8, each = (blocks + 7) / 8, rest = blocks % 8;
  const int id = die * each + blockIdx.x / 8 - (rest == 0 || die < rest ? 0 : die - rest);
  const int group = id / (GROUP_M * blocks_n), first = group * GROUP_M;
  const int rows = min(blocks_m - first, GROUP_M), within = id % (GROUP_M * blocks_n);
  *m = first + within % rows;
  *n = within / rows;
}

struct Half {  // one operand, 128 rows x 64
  element8 part[4];
};
struct Operand {  // the share of a wavefront: 64 rows x 64
  element8 part[4][2];
};

__device__ inline Half load_half(const element_t* from, int ld, int row0, int k0) {
  Half half;
#if BUFFER_LOADS
  const auto resource = __builtin_amdgcn_make_buffer_rsrc((void*)from, 0, -1, 0x00027000);
#endif
#pragma unroll
  for (int e = 0; e < 4; e++) {
    const int row = row0 + e * 32 + threadIdx.x / 8, k = k0 + threadIdx.x % 8 * 8;
#if BUFFER_LOADS
    const uint4_t raw = __builtin_amdgcn_raw_buffer_load_b128(resource, (row * ld + k) * 2, 0, 0);
    half.part[e] = __builtin_bit_cast(element8, raw);
#else
    half.part[e] = *(const element8*)(from + (size_t)row * ld + k);
#endif
  }
  return half;
}
__device__ inline int swizzled(int row, int chunk) { return row * 8 + (chunk ^ (row / PER_PHASE % 8)); }
__device__ inline void store_half(element8* lds, const Half& half) {
#pragma unroll
  for (int e = 0; e < 4; e++) lds[swizzled(e * 32 + threadIdx.x / 8, threadIdx.x % 8)] = half.part[e];
}
__device__ inline Operand read_operand(const element8* lds, int row0) {
  Operand operand;
  const int r = threadIdx.x % 16, q = threadIdx.x % 64 / 16;
#pragma unroll
  for (int t = 0; t < 4; t++)
#pragma unroll
    for (int j = 0; j < 2; j++) operand.part[t][j] = lds[swizzled(row0 + t * 16 + r, j * 4 + q)];
  return operand;
}
__device__ inline void dot(float4_t (&acc)[4][4], const Operand& a, const Operand& b) {
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        acc[m][n] = multiply_add(a.part[m][j].lo, b.part[n][j].lo, acc[m][n]);
        acc[m][n] = multiply_add(a.part[m][j].hi, b.part[n][j].hi, acc[m][n]);
      }
}
// Order of a region: 64 matrix instructions, 8 LDS reads, 4 LDS stores, 4 global loads.
__device__ inline void interleave() {
#if INTERLEAVE
#define ORDER(mask, count) __builtin_amdgcn_sched_group_barrier(mask, count, 0)
  constexpr int MATRIX = 0x8, LOAD_GLOBAL = 0x20, READ_LDS = 0x100, STORE_LDS = 0x200;
#pragma unroll
  for (int e = 0; e < 8; e++) {
    ORDER(READ_LDS, 1);
    ORDER(MATRIX, 2);
  }
  if (INTERLEAVE == 2) ORDER(MATRIX, 24);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    ORDER(STORE_LDS, 1);
    ORDER(MATRIX, 2);
  }
#pragma unroll
  for (int e = 0; e < 4; e++) {
    ORDER(LOAD_GLOBAL, 1);
    ORDER(MATRIX, 4);
  }
  if (INTERLEAVE == 1) ORDER(MATRIX, 24);
#endif
}
template <typename T> __device__ inline void keep(const T& value) {  // the value counts as used
#pragma unroll
  for (int e = 0; e < sizeof(T) / 16; e++) asm volatile("" ::"v"(((const uint4_t*)&value)[e]));
}

extern "C" __global__ __launch_bounds__(256, 1) void gemm_256(const element_t* __restrict__ a, const element_t* __restrict__ b,
                                                              element_t* __restrict__ c, int m, int n, int k) {
  __shared__ element8 lds[4][128 * 8];  // top and bottom of A, left and right of B
  int block_m, block_n;
  place(m / 256, n / 256, &block_m, &block_n);
  const int wave = threadIdx.x / 64, top = wave / 2 * 64, left = wave % 2 * 64;
  a += (size_t)block_m * 256 * k;
  b += (size_t)block_n * 256 * k;
  float4_t acc[4][4][4] = {};
  Half halves[4];
  Operand a_top, a_bottom, b_left, b_right;
  auto load = [&](int i, int at) { halves[i] = load_half(i < 2 ? a : b, k, i % 2 * 128, at); };
  for (int i = 0; i < 4; i++) load(i, 0);
  for (int i = 0; i < 4; i++) store_half(lds[i], halves[i]);
  for (int i = 0; i < 4; i++) load(i, 64);
  __syncthreads();
  b_left = read_operand(lds[2], left);
  a_top = read_operand(lds[0], top);
  a_bottom = read_operand(lds[1], top);
  b_right = read_operand(lds[3], left);
  for (const Operand* operand : {&a_top, &a_bottom, &b_left, &b_right}) keep(*operand);  // read before the slots are stored to again
  __syncthreads();
  for (int at = 128; at < k + 128; at += 64) {  // the last two steps load the last operands again and do not use them
    auto region = [&](float4_t(&sum)[4][4], const Operand& x, const Operand& y, Operand& next, int read, int base, int store) {
      dot(sum, x, y);
      if (READ) next = read_operand(lds[read], base);
      if (STORE) store_half(lds[store], halves[store]);
      if (LOAD && !STORE) keep(halves[store]);
      if (LOAD) load(store, min(at, k - 64));
      interleave();
      if (READ && STORE && (read == 0 || read == 3 || (BARRIERS == 3 && read == 1))) __syncthreads();
      __builtin_amdgcn_sched_barrier(0);
    };
    region(acc[0], a_top, b_left, a_bottom, 1, top, 2);
    region(acc[1], a_bottom, b_left, b_right, 3, left, 0);
    region(acc[2], a_top, b_right, b_left, 2, left, 1);
    region(acc[3], a_bottom, b_right, a_top, 0, top, 3);
  }
  const int r = threadIdx.x % 16, q = threadIdx.x % 64 / 16;
#pragma unroll
  for (int quadrant = 0; quadrant < 4; quadrant++)
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const size_t row = block_m * 256 + (quadrant == 1 || quadrant == 3) * 128 + top + i * 16 + q * 4 + e;
          c[row * n + block_n * 256 + (quadrant >= 2) * 128 + left + j * 16 + r] = (element_t)acc[quadrant][i][j][e];
        }
}
