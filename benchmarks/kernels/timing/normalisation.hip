// Fused row-wise kernels of transformer inference: f16 in, FP8 (e4m3fnuz) out.
#include <hip/hip_runtime.h>
typedef _Float16 half_t;
typedef half_t half2_t __attribute__((ext_vector_type(2)));
typedef half_t half8_t __attribute__((ext_vector_type(8)));
typedef unsigned uint2_t __attribute__((ext_vector_type(2)));

__device__ inline unsigned fp8x4(float x, float y, float z, float w) {
  int packed = __builtin_amdgcn_cvt_pk_fp8_f32(x, y, 0, false);
  return __builtin_amdgcn_cvt_pk_fp8_f32(z, w, packed, true);
}
// Sum over the workgroup; every work-item receives it.
__device__ inline float block_sum(float x) {
  __shared__ float partial[16];
  for (int step = 32; step > 0; step /= 2) x += __shfl_xor(x, step);
  if (threadIdx.x % 64 == 0) partial[threadIdx.x / 64] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < blockDim.x / 64; i++) sum += partial[i];
  return sum;
}

// x + residual, RMSNorm, FP8. One row per workgroup; the sum is read again from memory.
extern "C" __global__ void rms_norm_reread(const half8_t* x, half8_t* residual, const half8_t* weight, uint2_t* out, float scale,
                                           int width) {
  const size_t row = (size_t)blockIdx.x * (width / 8);
  float square = 0;
  for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
    half8_t sum = x[row + i] + residual[row + i];
    for (int e = 0; e < 8; e++) square += (float)sum[e] * (float)sum[e];
    residual[row + i] = sum;
  }
  const float factor = rsqrtf(block_sum(square) / width + 1e-6f);
  for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
    const half8_t sum = residual[row + i], w = weight[i];
    float y[8];
    for (int e = 0; e < 8; e++) y[e] = fminf(fmaxf((float)sum[e] * factor * (float)w[e] * scale, -240.f), 240.f);
    out[row + i] = uint2_t{fp8x4(y[0], y[1], y[2], y[3]), fp8x4(y[4], y[5], y[6], y[7])};
  }
}
// The same with the row in LDS between the two passes.
extern "C" __global__ void rms_norm_lds(const half8_t* x, half8_t* residual, const half8_t* weight, uint2_t* out, float scale,
                                        int width) {
  extern __shared__ half8_t cached[];
  const size_t row = (size_t)blockIdx.x * (width / 8);
  float square = 0;
  for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
    half8_t sum = x[row + i] + residual[row + i];
    for (int e = 0; e < 8; e++) square += (float)sum[e] * (float)sum[e];
    residual[row + i] = sum;
    cached[i] = sum;
  }
  const float factor = rsqrtf(block_sum(square) / width + 1e-6f) * scale;
  for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
    const half8_t sum = cached[i], w = weight[i];
    float y[8];
    for (int e = 0; e < 8; e++) y[e] = fminf(fmaxf((float)sum[e] * factor * (float)w[e], -240.f), 240.f);
    out[row + i] = uint2_t{fp8x4(y[0], y[1], y[2], y[3]), fp8x4(y[4], y[5], y[6], y[7])};
  }
}

// silu(gate) * up and FP8, `half` values each. One row per workgroup, one value per work-item and step.
extern "C" __global__ void swiglu_scalar(const half_t* x, unsigned char* out, float scale, int half) {
  const size_t row = blockIdx.x;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float gate = x[row * 2 * half + i], up = x[row * 2 * half + half + i];
    const float y = gate / (1 + expf(-gate)) * up / scale;
    out[row * half + i] = __builtin_amdgcn_cvt_pk_fp8_f32(fminf(fmaxf(y, -240.f), 240.f), 0, 0, false);
  }
}
// The same with 16-byte loads, packed f16 and exp2. Each work-item handles eight values.
extern "C" __global__ void swiglu_packed(const half8_t* x, uint2_t* out, float scale, int half) {
  const int blocks = half / 8, i = (blockIdx.x * blockDim.x + threadIdx.x) % blocks;
  const size_t row = (blockIdx.x * blockDim.x + threadIdx.x) / blocks;
  const half8_t gate = x[row * 2 * blocks + i], up = x[row * 2 * blocks + blocks + i];
  float y[8];
  for (int e = 0; e < 8; e++) {
    const float g = gate[e];
    const float silu = g * __builtin_amdgcn_rcpf(1 + __builtin_amdgcn_exp2f(g * -1.442695f));
    y[e] = __builtin_amdgcn_fmed3f(silu * (float)up[e] * scale, -240.f, 240.f);
  }
  out[row * blocks + i] = uint2_t{fp8x4(y[0], y[1], y[2], y[3]), fp8x4(y[4], y[5], y[6], y[7])};
}
