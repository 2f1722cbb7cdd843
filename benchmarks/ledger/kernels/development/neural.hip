#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

// Layers of a transformer in inference.

// One workgroup per row of 4096 halves; a work-item keeps its 16 halves in registers.
extern "C" __global__ void __launch_bounds__(256) rms_norm(const uint4* __restrict__ x, const uint4* __restrict__ weight, uint4* __restrict__ y) {
  __shared__ float partial[4];
  const size_t row = (size_t)blockIdx.x * 512;
  uint4 v[2] = {x[row + threadIdx.x], x[row + 256 + threadIdx.x]};
  const __half2* h = reinterpret_cast<const __half2*>(v);
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float2 f = __half22float2(h[i]);
    sum += f.x * f.x + f.y * f.y;
  }
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if ((threadIdx.x & 63) == 0) partial[threadIdx.x >> 6] = sum;
  __syncthreads();
  const float scale = rsqrtf((partial[0] + partial[1] + partial[2] + partial[3]) / 4096.f + 1e-5f);
  const __half2 factor = __float2half2_rn(scale);
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    uint4 w = weight[part * 256 + threadIdx.x];
    const __half2* g = reinterpret_cast<const __half2*>(&w);
    __half2* out = reinterpret_cast<__half2*>(&v[part]);
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __hmul2(__hmul2(out[i], factor), g[i]);
    y[row + part * 256 + threadIdx.x] = v[part];
  }
}

// One work-item per token: mean and variance over its features.
extern "C" __global__ void layer_norm_tokens(const float* __restrict__ x, const float* __restrict__ gamma, float* __restrict__ y, int features) {
  const size_t token = blockIdx.x * blockDim.x + threadIdx.x;
  const float* row = x + token * features;
  float mean = 0.f, square = 0.f;
  for (int i = 0; i < features; ++i) {
    const float v = row[i];
    mean += v;
    square += v * v;
  }
  mean /= features;
  const float scale = rsqrtf(square / features - mean * mean + 1e-5f);
  for (int i = 0; i < features; ++i) y[token * features + i] = (row[i] - mean) * scale * gamma[i];
}

// Decoding step: one workgroup per (sequence, head), head dimension 128; four wavefronts share the keys.
extern "C" __global__ void __launch_bounds__(256)
    decode_attention(const __half2* __restrict__ q, const __half2* __restrict__ k, const __half2* __restrict__ v, float2* __restrict__ out, int length) {
  __shared__ float2 sums[4][64];
  __shared__ float maxima[4], weights[4];
  const int lane = threadIdx.x & 63, wave = threadIdx.x >> 6;
  const size_t head = blockIdx.x;
  const float2 query = __half22float2(q[head * 64 + lane]);
  float largest = -1e30f, total = 0.f;
  float2 acc = {0.f, 0.f};
  for (int t = wave; t < length; t += 4) {
    const size_t at = (head * length + t) * 64 + lane;
    const float2 key = __half22float2(k[at]);
    float score = query.x * key.x + query.y * key.y;
    for (int offset = 32; offset > 0; offset >>= 1) score += __shfl_xor(score, offset);
    const float2 value = __half22float2(v[at]);
    const float next = fmaxf(largest, score), keep = __expf(largest - next), p = __expf(score - next);
    total = total * keep + p;
    acc.x = acc.x * keep + p * value.x;
    acc.y = acc.y * keep + p * value.y;
    largest = next;
  }
  sums[wave][lane] = acc;
  if (lane == 0) { maxima[wave] = largest; weights[wave] = total; }
  __syncthreads();
  if (wave == 0) {
    const float top = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
    float2 r = {0.f, 0.f};
    float norm = 0.f;
    for (int w = 0; w < 4; ++w) {
      const float f = __expf(maxima[w] - top);
      r.x += f * sums[w][lane].x;
      r.y += f * sums[w][lane].y;
      norm += f * weights[w];
    }
    out[head * 64 + lane] = {r.x / norm, r.y / norm};
  }
}

// Sum of `count` rows of 512 floats per bag.
extern "C" __global__ void __launch_bounds__(128) embedding_bag(const float4* __restrict__ table, const int* __restrict__ ids, float4* __restrict__ out, int count) {
  float4 sum = {0.f, 0.f, 0.f, 0.f};
  const int* mine = ids + (size_t)blockIdx.x * count;
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const float4 r = table[(size_t)mine[i] * 128 + threadIdx.x];
    sum.x += r.x;
    sum.y += r.y;
    sum.z += r.z;
    sum.w += r.w;
  }
  out[(size_t)blockIdx.x * 128 + threadIdx.x] = sum;
}

// Rotary embedding; angles are computed for every element.
extern "C" __global__ void rotary(const __half2* __restrict__ x, __half2* __restrict__ y, long heads, long pairs, float base) {
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  const long pair = i % pairs, position = i / pairs / heads;
  const float angle = (float)position * powf(base, -2.0f * (float)pair / (float)(2 * pairs));
  const float s = sinf(angle), c = cosf(angle);
  const float2 v = __half22float2(x[i]);
  y[i] = __float22half2_rn({v.x * c - v.y * s, v.x * s + v.y * c});
}

extern "C" __global__ void add_bias(float* __restrict__ x, const float* __restrict__ bias) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] += bias[threadIdx.x];
}

// Scale of an optimizer step from the partial norms of the gradient.
extern "C" __global__ void __launch_bounds__(256) clip_factor(const float* __restrict__ partial, float* __restrict__ factor, int count, float limit) {
  __shared__ float sums[4];
  float sum = 0.f;
  for (int i = threadIdx.x; i < count; i += 256) sum += partial[i];
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if ((threadIdx.x & 63) == 0) sums[threadIdx.x >> 6] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *factor = fminf(1.f, limit * rsqrtf(sums[0] + sums[1] + sums[2] + sums[3]));
}

// Best inner product of each query with 64 dimensions; 128 queries per workgroup, the database passes through LDS.
using half4 = __attribute__((ext_vector_type(4))) _Float16;
using float16 = __attribute__((ext_vector_type(16))) float;
extern "C" __global__ void __launch_bounds__(256) best_match(const half4* __restrict__ queries, const half4* __restrict__ database, float* __restrict__ best, int chunks) {
  __shared__ half4 tile[16][129];
  const int lane = threadIdx.x & 63, wave = threadIdx.x >> 6, column = lane & 31, half = lane >> 5;
  half4 a[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) a[k] = queries[((size_t)blockIdx.x * 128 + wave * 32 + column) * 16 + k * 2 + half];
  float top[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) top[i] = -1e30f;
  half4 next[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) next[i] = database[i * 256 + threadIdx.x];
  for (int chunk = 0; chunk < chunks; ++chunk) {
    __syncthreads();
    const size_t following = chunk + 1 < chunks ? chunk + 1 : chunk;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int e = i * 256 + threadIdx.x;
      tile[e & 15][e >> 4] = next[i];
      next[i] = database[following * 2048 + e];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 128; n += 64) {
      float16 c0 = {}, c1 = {};
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        c0 = __builtin_amdgcn_mfma_f32_32x32x8f16(a[k], tile[k * 2 + half][n + column], c0, 0, 0, 0);
        c1 = __builtin_amdgcn_mfma_f32_32x32x8f16(a[k], tile[k * 2 + half][n + 32 + column], c1, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) top[i] = fmaxf(top[i], fmaxf(c0[i], c1[i]));
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) best[(size_t)blockIdx.x * 4096 + wave * 1024 + i * 64 + lane] = top[i];
}

// Logits of 32 x 32 tiles straight from memory: a wavefront per tile, row-major operands with K contiguous.
extern "C" __global__ void __launch_bounds__(256) logits_direct(const half4* __restrict__ a, const half4* __restrict__ b, float* __restrict__ c, int k4, int columns) {
  const int lane = threadIdx.x & 63, tile = blockIdx.x * 4 + (threadIdx.x >> 6), tiles = columns / 32;
  const int row = tile / tiles * 32, column = tile % tiles * 32;
  float16 acc = {};
  const half4* pa = a + (size_t)(row + (lane & 31)) * k4 + (lane >> 5);
  const half4* pb = b + (size_t)(column + (lane & 31)) * k4 + (lane >> 5);
  for (int k = 0; k < k4; k += 2) acc = __builtin_amdgcn_mfma_f32_32x32x8f16(pa[k], pb[k], acc, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < 16; ++i) c[(size_t)(row + i % 4 + i / 4 * 8 + (lane >> 5) * 4) * columns + column + (lane & 31)] = acc[i];
}
