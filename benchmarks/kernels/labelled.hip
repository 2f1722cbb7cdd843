#include <hip/hip_runtime.h>
#define K extern "C" __global__

// Each kernel is named after the resource that limits it; benchmarks/bottleneck_cases.py has the sizes.
K void copy(const float4* in, float4* out) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
K void triad(const float* a, float* b) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, n = (size_t)gridDim.x * blockDim.x;
  b[i] = a[i] + 3.0f * a[n + i];
}
K void multiply_add(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a[8];
  for (int k = 0; k < 8; k++) a[k] = in[i & 1023] + k;
  for (int r = 0; r < 400; r++)
    for (int k = 0; k < 8; k++) a[k] = fmaf(a[k], 0.5f, 1.5f);
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += a[k];
  out[i] = sum;
}
K void transcendental(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = in[i & 1023], b = a + 1, c = a + 2, d = a + 3;
  for (int r = 0; r < 300; r++) {
    a = __builtin_amdgcn_exp2f(a) * 0.5f;
    b = __builtin_amdgcn_exp2f(b) * 0.5f;
    c = __builtin_amdgcn_exp2f(c) * 0.5f;
    d = __builtin_amdgcn_exp2f(d) * 0.5f;
  }
  out[i] = a + b + c + d;
}
// Lanes of a wavefront read the same bank: 32 dwords apart.
K void bank_conflicts(const float* in, float* out) {
  __shared__ float tile[64 * 32];
  const int t = threadIdx.x;
  for (int i = t; i < 64 * 32; i += blockDim.x) tile[i] = in[i];
  __syncthreads();
  float sum = 0;
  int at = (t % 64) * 32;
  for (int r = 0; r < 200; r++) {
    asm volatile("" : "+v"(at));
    sum += tile[at];
  }
  out[blockIdx.x * blockDim.x + t] = sum;
}
// One lane in sixteen goes through the long branch.
K void divergent(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i & 1023];
  if (i % 16 == 0)
    for (int r = 0; r < 600; r++) x = sinf(x) * 1.5f;
  out[i] = x;
}
// Every load of a wavefront depends on the previous one; all its lanes read the same dword, which is in L2.
K void dependent_loads(const unsigned* next, unsigned* out) {
  unsigned at = ((blockIdx.x * blockDim.x + threadIdx.x) / 64) & 32767;
  for (int s = 0; s < 200; s++) {
    asm volatile("" : "+v"(at));
    at = next[at];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
// The same kernel with one wavefront per SIMD, which uses all of its registers.
K void __launch_bounds__(256, 1) many_registers(const unsigned* next, unsigned* out) {
  asm volatile("" ::: "v255", "a255");
  unsigned at = ((blockIdx.x * blockDim.x + threadIdx.x) / 64) & 32767;
  for (int s = 0; s < 200; s++) {
    asm volatile("" : "+v"(at));
    at = next[at];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
K void nothing(const float* in, float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 0; }
