#include <hip/hip_runtime.h>
#define K extern "C" __global__

// Streams 16 bytes per work-item.
K void copy(const float4* in, float4* out) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
// Loads only: every workgroup reads `steps` rows of 64 floats.
K void rows(const float* in, float* out, int count, int steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < steps; k++) sum += in[(i + k * 64) % count] * 0.5f;
  out[i] = sum;
}
// Arithmetic only.
K void arithmetic(float* out, int steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = i, b = 1;
  for (int k = 0; k < steps; k++) {
    a = a * 1.0001f + b;
    b = b * 0.999f + a;
  }
  out[i] = a + b;
}
// Sums `length[workgroup]` elements.
K void ragged(const int* length, const float* in, float* out, int count) {
  const int n = length[blockIdx.x];
  float sum = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) sum += in[(blockIdx.x * 977 + k) % count];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// Workgroups whose entry is 0 return at once; the others do the work of `arithmetic`.
K void lazy(const int* works, float* out, int steps) {
  if (!works[blockIdx.x]) return;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = i, b = 1;
  for (int k = 0; k < steps; k++) {
    a = a * 1.0001f + b;
    b = b * 0.999f + a;
  }
  out[i] = a + b;
}
// Tiles from a queue: workgroups depend on each other.
K void queue(int* next, const float* in, float* out, int tiles) {
  __shared__ int tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    const int mine = tile;
    __syncthreads();
    if (mine >= tiles) return;
    const size_t i = (size_t)mine * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += in[i] * k;
    out[i] = sum;
  }
}
