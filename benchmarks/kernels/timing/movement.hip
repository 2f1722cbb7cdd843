// Kernels that mostly move data: fills, copies, concatenation, transposition, reductions, scatter.
#include <hip/hip_runtime.h>
typedef float float4_t __attribute__((ext_vector_type(4)));
typedef unsigned uint4_t __attribute__((ext_vector_type(4)));
typedef _Float16 half_t;
typedef half_t half2_t __attribute__((ext_vector_type(2)));

// 16 bytes per work-item.
extern "C" __global__ void fill(uint4_t* out, unsigned value) {
  out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = uint4_t{value, value, value, value};
}

// Concatenation of 512 and 64 16-bit values per token and head; one wavefront per pair. The first part is stored head by head.
template <bool NONTEMPORAL> __device__ void concat(const uint4_t* wide, const unsigned* narrow, uint4_t* out, int tokens, int heads) {
  const int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 64, lane = threadIdx.x % 64;
  const int token = pair / heads, head = pair % heads;
  uint4_t* to = out + (size_t)pair * 72;
  const uint4_t first = wide[((size_t)head * tokens + token) * 64 + lane];
  if (NONTEMPORAL) __builtin_nontemporal_store(first, to + lane);
  else to[lane] = first;
  if (lane < 32) {
    const unsigned second = narrow[(size_t)pair * 32 + lane];
    if (NONTEMPORAL) __builtin_nontemporal_store(second, (unsigned*)(to + 64) + lane);
    else ((unsigned*)(to + 64))[lane] = second;
  }
}
extern "C" __global__ void concat_plain(const uint4_t* wide, const unsigned* narrow, uint4_t* out, int tokens, int heads) {
  concat<false>(wide, narrow, out, tokens, heads);
}
extern "C" __global__ void concat_nontemporal(const uint4_t* wide, const unsigned* narrow, uint4_t* out, int tokens, int heads) {
  concat<true>(wide, narrow, out, tokens, heads);
}

// Square matrices, 16 x 16 tiles of 64 x 64 at 1024; 64 x 16 work-items.
extern "C" __global__ void copy_tiles(const float* in, float* out, int side) {
  const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
  for (int i = 0; i < 64; i += blockDim.y) out[(size_t)(y + i) * side + x] = in[(size_t)(y + i) * side + x];
}
extern "C" __global__ void transpose_naive(const float* in, float* out, int side) {
  const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
  for (int i = 0; i < 64; i += blockDim.y) out[(size_t)x * side + y + i] = in[(size_t)(y + i) * side + x];
}
template <int PAD> __device__ void through_lds(const float* in, float* out, int side) {
  __shared__ float tile[64][64 + PAD];
  int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 64 + threadIdx.y;
  for (int i = 0; i < 64; i += blockDim.y) tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * side + x];
  __syncthreads();
  x = blockIdx.y * 64 + threadIdx.x, y = blockIdx.x * 64 + threadIdx.y;
  for (int i = 0; i < 64; i += blockDim.y) out[(size_t)(y + i) * side + x] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" __global__ void transpose_lds(const float* in, float* out, int side) { through_lds<0>(in, out, side); }
extern "C" __global__ void transpose_lds_padded(const float* in, float* out, int side) { through_lds<1>(in, out, side); }

// Partial sums, `each` values per work-item in steps of the whole grid. Each workgroup publishes its sum with a fence and counts
// itself; the last one adds the partial sums.
extern "C" __global__ void sum_all(const float* in, float* partial_sums, unsigned* done, int each) {
  const size_t stride = (size_t)gridDim.x * blockDim.x, at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  float sum[4] = {};
  for (int i = 0; i < each; i += 4)
    for (int e = 0; e < 4; e++) sum[e] += in[at + (i + e) * stride];
  __shared__ float partial[16];
  float total = sum[0] + sum[1] + sum[2] + sum[3];
  for (int step = 32; step > 0; step /= 2) total += __shfl_xor(total, step);
  if (threadIdx.x % 64 == 0) partial[threadIdx.x / 64] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    total = 0;
    for (int i = 0; i < blockDim.x / 64; i++) total += partial[i];
    partial_sums[blockIdx.x] = total;
  }
  __threadfence();
  __shared__ unsigned last;
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  total = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) total += ((volatile float*)partial_sums)[i];
  unsafeAtomicAdd(&partial_sums[gridDim.x], total);
}
// Sums of rows of 128 values; 32 lanes per row and `each` rows per work-item.
extern "C" __global__ void row_sums_scalar(const float* in, float* out) {
  const int lane = threadIdx.x % 32;
  const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  float sum = 0;
  for (int i = lane; i < 128; i += 32) sum += in[row * 128 + i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor(sum, step);
  if (lane == 0) out[row] = sum;
}
extern "C" __global__ void row_sums_vector(const float4_t* in, float* out) {
  const int lane = threadIdx.x % 32;
  const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const float4_t x = in[row * 32 + lane];
  float sum = x[0] + x[1] + x[2] + x[3];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor(sum, step);
  if (lane == 0) out[row] = sum;
}

// One atomic add per item.
extern "C" __global__ void scatter_add(const float* in, const long* index, float* out, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) unsafeAtomicAdd(&out[index[at]], in[at]);
}
// Lanes of a wavefront with the same destination are summed first.
__device__ inline void combined_add(float* out, int mine, float value) {
  unsigned long long pending = __ballot(1);
  while (pending) {
    const int first = __builtin_ctzll(pending);
    const int target = __builtin_amdgcn_readlane(mine, first);
    const bool same = mine == target;
    const unsigned long long group = __ballot(same) & pending;
    if (same) {
      float sum = 0;
      for (unsigned long long rest = group; rest; rest &= rest - 1)
        sum += __int_as_float(__builtin_amdgcn_readlane(__float_as_int(value), __builtin_ctzll(rest)));
      if (threadIdx.x % 64 == first) unsafeAtomicAdd(&out[target], sum);
    }
    pending &= ~group;
  }
}
extern "C" __global__ void scatter_add_combined(const float* in, const long* index, float* out, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) combined_add(out, index[at], in[at]);
}
// Rows of 128 values are added to the rows `index` of a table; one value per work-item.
extern "C" __global__ void index_add(const float* in, const int* index, float* table) {
  const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  unsafeAtomicAdd(&table[(size_t)index[at / 128] * 128 + at % 128], in[at]);
}
extern "C" __global__ void index_add_combined(const float* in, const int* index, float* table) {
  const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  combined_add(table, index[at / 128] * 128 + at % 128, in[at]);
}
