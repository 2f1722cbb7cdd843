#include <hip/hip_runtime.h>
#define K extern "C" __global__
typedef float float16_t __attribute__((ext_vector_type(16)));
typedef _Float16 half4_t __attribute__((ext_vector_type(4)));

// Streams 16 bytes per work-item.
K void copy(const float4* in, float4* out) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
// Every load depends on the previous one; `next` is a ring through each line of the buffer.
K void chase(const unsigned* next, unsigned* out, int steps) {
  unsigned at = 0;
  for (int s = 0; s < steps; s++) {
    asm volatile("" : "+v"(at));  // in a vector register, to avoid scalar loads
    at = next[at];
  }
  *out = at;
}
// Eight independent chains of fused multiply-adds; the compiler pairs them (v_pk_fma_f32).
K void fma_only(float* out, float x) {
  float a[8];
  for (int i = 0; i < 8; i++) a[i] = i + threadIdx.x;
  for (int r = 0; r < 2000; r++)
    for (int i = 0; i < 8; i++) a[i] = fmaf(a[i], x, 0.5f);
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += a[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// Four independent accumulators of matrix instructions.
K void mfma_only(float* out, float x) {
  float16_t c[4] = {};
  half4_t a = {(_Float16)x, 1, 2, 3}, b = {3, 2, 1, (_Float16)x};
  for (int r = 0; r < 1000; r++)
    for (int i = 0; i < 4; i++) c[i] = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c[i], 0, 0, 0);
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += c[i][0];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// LDS reads; adjacent lanes are `stride` dwords apart.
K void lds_reads(float* out, int stride) {
  __shared__ float tile[64 * 32];
  for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) tile[i] = i;
  __syncthreads();
  int at = (threadIdx.x % 64) * stride;
  float sum[8] = {};
  for (int r = 0; r < 500; r++)
    for (int i = 0; i < 8; i++) {
      asm volatile("" : "+v"(at));  // read again
      sum[i] += tile[at];
    }
  for (int i = 1; i < 8; i++) sum[0] += sum[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum[0];
}
