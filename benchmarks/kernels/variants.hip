#include <hip/hip_runtime.h>
#define K extern "C" __global__
#define N 2048
constexpr int TILE = 32, ROWS = 8;

// Transposition of an N x N matrix: naive, in LDS, and in padded LDS. Blocks of 32 x 8 work-items.
K void transpose_naive(const float* in, float* out) {
  const int x = blockIdx.x * TILE + threadIdx.x;
  for (int r = threadIdx.y; r < TILE; r += ROWS) {
    const int y = blockIdx.y * TILE + r;
    out[x * N + y] = in[y * N + x];
  }
}
template <int PAD> __device__ void through_lds(const float* in, float* out) {
  __shared__ float tile[TILE][TILE + PAD];
  const int x = blockIdx.x * TILE + threadIdx.x, tx = blockIdx.y * TILE + threadIdx.x;
  for (int r = threadIdx.y; r < TILE; r += ROWS) tile[r][threadIdx.x] = in[(blockIdx.y * TILE + r) * N + x];
  __syncthreads();
  for (int r = threadIdx.y; r < TILE; r += ROWS) out[(blockIdx.x * TILE + r) * N + tx] = tile[threadIdx.x][r];
}
K void transpose_lds(const float* in, float* out) { through_lds<0>(in, out); }
K void transpose_lds_padded(const float* in, float* out) { through_lds<1>(in, out); }

// A gather of 2^22 floats whose adjacent lanes read `STRIDE` floats apart.
template <int STRIDE> __device__ void gather_from(const float* in, float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[(i * STRIDE) & ((1u << 22) - 1)];
}
K void gather_33(const float* in, float* out) { gather_from<33>(in, out); }
K void gather_3(const float* in, float* out) { gather_from<3>(in, out); }
K void gather_1(const float* in, float* out) { gather_from<1>(in, out); }

// A reduction of 256 values in LDS, with divergent neighbours, with strided accesses, and by wavefront shuffles.
K void reduce_divergent(const float* in, float* out) {
  __shared__ float s[256];
  const int t = threadIdx.x;
  s[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    if (t % (2 * d) == 0) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
K void reduce_sequential(const float* in, float* out) {
  __shared__ float s[256];
  const int t = threadIdx.x;
  s[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int d = 128; d > 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
K void reduce_shuffle(const float* in, float* out) {
  __shared__ float s[4];
  const int t = threadIdx.x;
  float v = in[blockIdx.x * 256 + t];
  for (int d = 32; d > 0; d /= 2) v += __shfl_down(v, d);
  if (t % 64 == 0) s[t / 64] = v;
  __syncthreads();
  if (t == 0) out[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}
