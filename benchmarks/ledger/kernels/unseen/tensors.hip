// Operators of an inference library, templated.
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

namespace ops {

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

// Dequantisation: 8 int8 weights per work-item, one scale per 128.
template <int GROUP>
__device__ void dequantize(const Pack<signed char, 8>* q, const float* scales, Pack<_Float16, 8>* w) {
  const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const Pack<signed char, 8> packed = q[i];
  const float s = scales[i * 8 / GROUP];
  Pack<_Float16, 8> result;
#pragma unroll
  for (int k = 0; k < 8; ++k) result.value[k] = static_cast<_Float16>(packed.value[k] * s);
  w[i] = result;
}

__device__ inline float wave_max(float v) {
#pragma unroll
  for (int mask = 1; mask < 64; mask <<= 1) v = fmaxf(v, __shfl_xor(v, mask));
  return v;
}

// Largest magnitude per workgroup, for a quantisation scale.
template <int UNROLL>
__device__ void abs_max(const Pack<_Float16, 8>* x, float* result, int count) {
  __shared__ float waves[4];
  float m = 0;
  const int stride = gridDim.x * blockDim.x;
#pragma unroll UNROLL
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const Pack<_Float16, 8> p = x[i];
#pragma unroll
    for (int k = 0; k < 8; ++k) m = fmaxf(m, fabsf(static_cast<float>(p.value[k])));
  }
  m = wave_max(m);
  if (threadIdx.x % 64 == 0) waves[threadIdx.x / 64] = m;
  __syncthreads();
  if (threadIdx.x == 0) result[blockIdx.x] = fmaxf(fmaxf(waves[0], waves[1]), fmaxf(waves[2], waves[3]));
}

// Products of a vector per workgroup with the same matrix of weights; workgroups begin at different rows.
__device__ void shared_weights(const float4* weights, const float4* x, float4* y, int rows) {
  const float4 v = x[blockIdx.x * 256 + threadIdx.x];
  float4 sum = {};
#pragma unroll 8
  for (int r = 0; r < rows; ++r) {
    const float4 w = weights[((r + blockIdx.x * 37) & (rows - 1)) * 256 + threadIdx.x];
    sum.x += v.x * w.x;
    sum.y += v.y * w.y;
    sum.z += v.z * w.z;
    sum.w += v.w * w.w;
  }
  y[blockIdx.x * 256 + threadIdx.x] = sum;
}

using f16x4 = __attribute__((ext_vector_type(4))) _Float16;
using f32x4 = __attribute__((ext_vector_type(4))) float;

// Two layers: relu(X W) v for hidden units in blocks of 64; the weights of a block pass through LDS, X stays in registers.
template <int DEPTH, int HIDDEN_BLOCK>
__device__ void two_layers(const f16x4* x, const f16x4* w, const float* v, float* y, int blocks) {
  __shared__ f16x4 tile[2][DEPTH / 4][HIDDEN_BLOCK + 1];
  __shared__ float second[2][HIDDEN_BLOCK];
  const int lane = threadIdx.x % 64, wave = threadIdx.x / 64, m = lane % 16, q = lane / 16;
  f16x4 a[2][DEPTH / 16];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k) a[r][k] = x[((blockIdx.x * 4 + wave) * 32 + r * 16 + m) * (DEPTH / 4) + k * 4 + q];
  float sums[2][4] = {};
  constexpr int each = DEPTH / 4 * HIDDEN_BLOCK / 256;
  f16x4 next[each];
  float next_second = 0;
  auto fetch = [&](int b) {
#pragma unroll
    for (int i = 0; i < each; ++i) next[i] = w[b * each * 256 + i * 256 + threadIdx.x];
    next_second = v[b * HIDDEN_BLOCK + threadIdx.x % HIDDEN_BLOCK];
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int e = i * 256 + threadIdx.x;
      tile[buffer][e / HIDDEN_BLOCK][e % HIDDEN_BLOCK] = next[i];
    }
    if (threadIdx.x < HIDDEN_BLOCK) second[buffer][threadIdx.x] = next_second;
  };
  fetch(0);
  store(0);
  for (int b = 0; b < blocks; ++b) {
    __syncthreads();
    fetch(b + 1 < blocks ? b + 1 : b);
#pragma unroll
    for (int n = 0; n < HIDDEN_BLOCK; n += 16) {
      f32x4 c[2] = {};
#pragma unroll
      for (int k = 0; k < DEPTH / 16; ++k) {
        const f16x4 f = tile[b % 2][k * 4 + q][n + m];
        c[0] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[0][k], f, c[0], 0, 0, 0);
        c[1] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[1][k], f, c[1], 0, 0, 0);
      }
      const float u = second[b % 2][n + m];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][i] += fmaxf(c[r][i], 0.f) * u;
    }
    store((b + 1) % 2);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int i = 0; i < 4; ++i) y[((blockIdx.x * 4 + wave) * 8 + r * 4 + i) * 64 + lane] = sums[r][i];
}

// 16th power of a Markov matrix by repeated multiplication on one wavefront: the result is an operand of the next product.
__device__ void matrix_steps(const float* start, float* out, int steps) {
  const int lane = threadIdx.x % 64;
  f16x4 a;
  for (int i = 0; i < 4; ++i) a[i] = static_cast<_Float16>(start[(lane * 4 + i) % 256]);
  f16x4 x = a;
  for (int s = 0; s < steps; ++s) {
    f32x4 c = {};
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(a, x, c, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = static_cast<_Float16>(c[i]);
  }
  for (int i = 0; i < 4; ++i) out[(blockIdx.x * blockDim.x + threadIdx.x) * 4 + i] = static_cast<float>(x[i]);
}

// im2col of any geometry: every element computes its place.
__device__ void im2col(const float* in, float* out, long total, long channels, long height, long width, long kernel, long out_h, long out_w) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < total; i += (long)gridDim.x * blockDim.x) {
    const long x = i % out_w, y = i / out_w % out_h, kx = i / out_w / out_h % kernel, ky = i / out_w / out_h / kernel % kernel;
    const long c = i / out_w / out_h / kernel / kernel % channels, n = i / out_w / out_h / kernel / kernel / channels;
    out[i] = in[((n * channels + c) * height + y + ky) * width + x + kx];
  }
}

// Row block of a small network whose weights fill LDS: 128 rows per workgroup.
template <int WIDTH, int LAYERS>
__device__ void resident_layers(const float4* x, const float4* w, float4* y) {
  __shared__ float4 weights[LAYERS][WIDTH][WIDTH / 4];
  for (int i = threadIdx.x; i < LAYERS * WIDTH * WIDTH / 4; i += blockDim.x) (&weights[0][0][0])[i] = w[i];
  const size_t row = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  float4 h[WIDTH / 4];
#pragma unroll
  for (int i = 0; i < WIDTH / 4; ++i) h[i] = x[i * (size_t)gridDim.x * blockDim.x + row];
  __syncthreads();
#pragma unroll 1
  for (int r = 0; r < 4; ++r)
#pragma unroll 1
    for (int l = 0; l < LAYERS; ++l) {
      float4 g[WIDTH / 4];
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        float s = 0;
#pragma unroll
        for (int i = 0; i < WIDTH / 4; ++i) {
          const float4 u = weights[l][j][i];
          s += u.x * h[i].x + u.y * h[i].y + u.z * h[i].z + u.w * h[i].w;
        }
        reinterpret_cast<float*>(g)[j] = fmaxf(s, 0.f);
      }
#pragma unroll
      for (int i = 0; i < WIDTH / 4; ++i) h[i] = g[i];
    }
#pragma unroll
  for (int i = 0; i < WIDTH / 4; ++i) y[i * (size_t)gridDim.x * blockDim.x + row] = h[i];
}

}  // namespace ops

extern "C" {
__global__ void dequantize_int8(const ops::Pack<signed char, 8>* q, const float* scales, ops::Pack<_Float16, 8>* w) { ops::dequantize<128>(q, scales, w); }
__global__ void __launch_bounds__(256) abs_max_f16(const ops::Pack<_Float16, 8>* x, float* r, int count) { ops::abs_max<4>(x, r, count); }
__global__ void __launch_bounds__(256) weights_times_rows(const float4* w, const float4* x, float4* y, int rows) { ops::shared_weights(w, x, y, rows); }
__global__ void __launch_bounds__(256) two_layers_64(const ops::f16x4* x, const ops::f16x4* w, const float* v, float* y, int blocks) { ops::two_layers<64, 64>(x, w, v, y, blocks); }
__global__ void __launch_bounds__(256) markov_power(const float* start, float* out, int steps) { ops::matrix_steps(start, out, steps); }
__global__ void im2col_any(const float* in, float* out, long total, long c, long h, long w, long k, long oh, long ow) { ops::im2col(in, out, total, c, h, w, k, oh, ow); }
__global__ void __launch_bounds__(256) resident_mlp(const float4* x, const float4* w, float4* y) { ops::resident_layers<32, 10>(x, w, y); }
}
