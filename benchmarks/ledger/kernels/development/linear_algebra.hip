#include <hip/hip_runtime.h>

// Dense and sparse linear algebra, float32.

extern "C" __global__ void axpby(const float4* __restrict__ x, float4* __restrict__ y, float a, float b) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  const float4 u = x[i], v = y[i];
  y[i] = {a * u.x + b * v.x, a * u.y + b * v.y, a * u.z + b * v.z, a * u.w + b * v.w};
}

extern "C" __global__ void __launch_bounds__(256) dot(const float4* __restrict__ x, const float4* __restrict__ y, float* __restrict__ partial, int count) {
  __shared__ float sums[4];
  float sum = 0.f;
#pragma unroll 4
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) {
    const float4 u = x[i], v = y[i];
    sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
  }
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if ((threadIdx.x & 63) == 0) sums[threadIdx.x >> 6] = sum;
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}

// C = A B with tiles of 16 x 16, one element per work-item.
extern "C" __global__ void __launch_bounds__(256) sgemm_16(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  const int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0.f;
  for (int s = 0; s < k; s += 16) {
    as[ty][tx] = a[row * k + s + tx];
    bs[ty][tx] = b[(s + ty) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// C = A B^T with tiles of 32 x 32, four elements per work-item.
extern "C" __global__ void __launch_bounds__(256) sgemm_nt_32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n, int k) {
  __shared__ float as[32][32], bs[32][32];
  const int tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  float sum[4] = {};
  for (int s = 0; s < k; s += 32) {
    for (int r = ty; r < 32; r += 8) {
      as[r][tx] = a[(row + r) * k + s + tx];
      bs[r][tx] = b[(column + r) * k + s + tx];
    }
    __syncthreads();
    for (int i = 0; i < 32; ++i) {
      const float v = bs[tx][i];
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[r] += as[ty + 8 * r][i] * v;
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) c[(size_t)(row + ty + 8 * r) * n + column + tx] = sum[r];
}

using Vector = __attribute__((ext_vector_type(4))) float;

// C = A^T B, tiles of 128 x 192, two buffers of LDS, 512 work-items with 4 x 12 elements each.
extern "C" __global__ void __launch_bounds__(512) sgemm_tn_128x192(const Vector* __restrict__ a, const Vector* __restrict__ b, Vector* __restrict__ c, int m, int n, int k) {
  __shared__ Vector as[2][16][32], bs[2][16][48];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4, row = blockIdx.y * 32, column = blockIdx.x * 48;
  const int rest = 512 + (t & 255), ar = t >> 5, ac = t & 31, br = t / 48, bc = t % 48, br2 = rest / 48, bc2 = rest % 48;
  const size_t m4 = m / 4, n4 = n / 4;
  Vector acc[4][3] = {};
  Vector u = a[ar * m4 + row + ac], v = b[br * n4 + column + bc], w = b[br2 * n4 + column + bc2];
  as[0][ar][ac] = u;
  bs[0][br][bc] = v;
  bs[0][br2][bc2] = w;
  __syncthreads();
  for (int s = 0; s < k; s += 16) {
    const int now = s / 16 & 1, ahead = s + 16 < k ? s + 16 : s;
    u = a[(ahead + ar) * m4 + row + ac];
    v = b[(ahead + br) * n4 + column + bc];
    w = b[(ahead + br2) * n4 + column + bc2];
#pragma unroll 2
    for (int q = 0; q < 16; ++q) {
      const Vector p = as[now][q][ty];
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        const Vector z = bs[now][q][tx + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[i][j] += p[i] * z;
      }
    }
    as[now ^ 1][ar][ac] = u;
    bs[now ^ 1][br][bc] = v;
    bs[now ^ 1][br2][bc2] = w;
    __syncthreads();
  }
  Vector* out = c + (row * 4 + ty * 4) * n4 + column + tx;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 3; ++j) out[i * n4 + 16 * j] = acc[i][j];
}

// 8 x 8 elements per work-item, compiled for eight wavefronts per SIMD.
extern "C" __global__ void __launch_bounds__(256, 8) sgemm_tn_64regs(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c, int m, int n, int k) {
  __shared__ float4 as[8][32], bs[8][32];
  const int t = threadIdx.x, tx = t & 15, ty = t >> 4, row = blockIdx.y * 32, column = blockIdx.x * 32;
  float acc[8][8] = {};
  for (int s = 0; s < k; s += 8) {
    as[t >> 5][t & 31] = a[(size_t)(s + (t >> 5)) * (m / 4) + row + (t & 31)];
    bs[t >> 5][t & 31] = b[(size_t)(s + (t >> 5)) * (n / 4) + column + (t & 31)];
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const float4 p0 = as[q][ty * 2], p1 = as[q][ty * 2 + 1], w0 = bs[q][tx], w1 = bs[q][16 + tx];
      const float p[8] = {p0.x, p0.y, p0.z, p0.w, p1.x, p1.y, p1.z, p1.w}, w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] += p[i] * w[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[(size_t)(row * 4 + ty * 8 + i) * (n / 4) + column + tx] = {acc[i][0], acc[i][1], acc[i][2], acc[i][3]};
    c[(size_t)(row * 4 + ty * 8 + i) * (n / 4) + column + 16 + tx] = {acc[i][4], acc[i][5], acc[i][6], acc[i][7]};
  }
}

// LU decomposition without pivoting of 32 x 32 matrices, two per wavefront, a lane per row.
extern "C" __global__ void __launch_bounds__(64) batched_lu(float* __restrict__ matrices) {
  __shared__ float tile[2][32][32];
  const int lane = threadIdx.x & 31, which = threadIdx.x >> 5;
  float* base = matrices + ((size_t)blockIdx.x * 2 + which) * 1024;
  for (int r = 0; r < 32; ++r) tile[which][r][lane] = base[r * 32 + lane];
  __syncthreads();
  for (int k = 0; k < 31; ++k) {
    if (lane > k) {
      const float factor = tile[which][lane][k] / tile[which][k][k];
      tile[which][lane][k] = factor;
      for (int j = k + 1; j < 32; ++j) tile[which][lane][j] -= factor * tile[which][k][j];
    }
    __syncthreads();
  }
  for (int r = 0; r < 32; ++r) base[r * 32 + lane] = tile[which][r][lane];
}

extern "C" __global__ void spmv_row_per_item(const int* __restrict__ starts, const int* __restrict__ columns, const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.f;
  for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

extern "C" __global__ void spmv_row_per_wave(const int* __restrict__ starts, const int* __restrict__ columns, const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y) {
  const int row = blockIdx.x * (blockDim.x / 64) + threadIdx.x / 64, lane = threadIdx.x & 63;
  float sum = 0.f;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 64) sum += values[i] * x[columns[i]];
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if (lane == 0) y[row] = sum;
}

extern "C" __global__ void transpose(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  out[(size_t)x * n + y] = in[(size_t)y * n + x];
}

// Partial inner products of vectors of 256 elements with the words of a codebook; a lane holds four dimensions.
extern "C" __global__ void __launch_bounds__(256) codebook_products(const float4* __restrict__ vectors, const float4* __restrict__ codebook, float4* __restrict__ out, int words, int rounds) {
  const int lane = threadIdx.x & 63;
  const size_t wave = (size_t)blockIdx.x * 4 + (threadIdx.x >> 6);
  const float4 v = vectors[wave * 64 + lane];
  float4 sum = {0.f, 0.f, 0.f, 0.f};
  for (int r = 0; r < rounds; ++r) {
#pragma unroll 8
    for (int w = 0; w < words; ++w) {
      const float4 c = codebook[w * 64 + lane];
      sum.x = fmaf(v.x, c.x, sum.x);
      sum.y = fmaf(v.y, c.y, sum.y);
      sum.z = fmaf(v.z, c.z, sum.z);
      sum.w = fmaf(v.w, c.w, sum.w);
    }
    __builtin_amdgcn_s_barrier();
  }
  out[wave * 64 + lane] = sum;
}
