// Pi by Monte Carlo: a counter-based generator, so that the host can count the same points.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>

__host__ __device__ inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

__host__ __device__ inline bool inside(uint32_t point) {
  const uint64_t x = mix(2 * point + 1) >> 1, y = mix(2 * point + 2) >> 1;
  return x * x + y * y < (uint64_t(1) << 62);
}

__global__ void count_points(uint32_t per_thread, unsigned long long* hits) {
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
  unsigned found = 0;
  for (uint32_t k = 0; k < per_thread; k++) found += inside(first + k);
  for (int offset = warpSize / 2; offset > 0; offset /= 2) found += __shfl_down(found, offset);
  if ((threadIdx.x & (warpSize - 1)) == 0) atomicAdd(hits, (unsigned long long)found);
}

int main() {
  constexpr uint32_t blocks = 32, threads = 256, per_thread = 64;
  unsigned long long *d_hits, hits = 0, expected = 0;
  if (hipMalloc(&d_hits, sizeof hits) != hipSuccess) return perror("hipMalloc"), 1;
  if (hipMemset(d_hits, 0, sizeof hits) != hipSuccess) return 1;
  count_points<<<blocks, threads>>>(per_thread, d_hits);
  if (hipGetLastError() != hipSuccess || hipMemcpy(&hits, d_hits, sizeof hits, hipMemcpyDeviceToHost) != hipSuccess) {
    fprintf(stderr, "the kernel failed\n");
    return 1;
  }
  if (hipFree(d_hits) != hipSuccess) return 1;
  const uint32_t points = blocks * threads * per_thread;
  for (uint32_t k = 0; k < points; k++) expected += inside(k);
  printf("%llu of %u points: pi is about %.4f\n", hits, points, 4.0 * hits / points);
  return hits == expected ? 0 : 1;
}
