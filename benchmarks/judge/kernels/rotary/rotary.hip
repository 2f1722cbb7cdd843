// Rotary position embedding: the two halves of each head are rotated by the angle of the token's position.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ void rotary(const __half* x, const long long* position, const float* cosines, const float* sines, __half* out,
                                  int heads, int half_dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= half_dim) return;
  size_t base = ((size_t)blockIdx.z * heads + blockIdx.y) * 2 * half_dim;
  size_t angle = (size_t)position[blockIdx.z] * half_dim + i;
  float c = cosines[angle], s = sines[angle];
  float first = __half2float(x[base + i]), second = __half2float(x[base + half_dim + i]);
  out[base + i] = __float2half(first * c - second * s);
  out[base + half_dim + i] = __float2half(second * c + first * s);
}
