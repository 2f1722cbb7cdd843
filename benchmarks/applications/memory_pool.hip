// Stream-ordered allocation: temporary buffers of a pipeline from the default pool and from a pool of the program.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_REQUIRE(x)                                                         \
  do {                                                                         \
    const hipError_t e = (x);                                                  \
    if (e != hipSuccess) {                                                     \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #x, hipGetErrorString(e));     \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

__global__ void iota(int* x, int n, int start) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = start + i;
}
__global__ void fold(const int* x, int* y, int n) {  // y[i] = x[i] + x[n - 1 - i]
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 2) y[i] = x[i] + x[n - 1 - i];
}

int main() {
  int supported = 0;
  HIP_REQUIRE(hipDeviceGetAttribute(&supported, hipDeviceAttributeMemoryPoolsSupported, 0));
  if (!supported) return 1;
  hipMemPoolProps properties = {};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = 0;
  hipMemPool_t pool, standard;
  HIP_REQUIRE(hipMemPoolCreate(&pool, &properties));
  HIP_REQUIRE(hipDeviceGetDefaultMemPool(&standard, 0));
  uint64_t threshold = UINT64_MAX, got = 0;
  HIP_REQUIRE(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
  HIP_REQUIRE(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &got));
  hipStream_t stream;
  HIP_REQUIRE(hipStreamCreate(&stream));
  int wrong = 0;
  for (int round = 0; round < 6; round++) {
    const int n = 1000 + 500 * round;
    int *x, *y;
    HIP_REQUIRE(hipMallocAsync((void**)&x, n * sizeof(int), stream));
    HIP_REQUIRE(hipMallocFromPoolAsync((void**)&y, n / 2 * sizeof(int), pool, stream));
    iota<<<(n + 255) / 256, 256, 0, stream>>>(x, n, round);
    fold<<<(n / 2 + 255) / 256, 256, 0, stream>>>(x, y, n);
    HIP_REQUIRE(hipFreeAsync(x, stream));  // after the kernels that use it
    std::vector<int> result(n / 2);
    HIP_REQUIRE(hipMemcpyAsync(result.data(), y, result.size() * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP_REQUIRE(hipFreeAsync(y, stream));
    HIP_REQUIRE(hipStreamSynchronize(stream));
    for (int v : result) wrong += v != n - 1 + 2 * round;
  }
  HIP_REQUIRE(hipMemPoolTrimTo(pool, 0));
  HIP_REQUIRE(hipMemPoolTrimTo(standard, 0));
  HIP_REQUIRE(hipStreamDestroy(stream));
  HIP_REQUIRE(hipMemPoolDestroy(pool));
  printf("memory pools: %d wrong, threshold %s\n", wrong, got == threshold ? "kept" : "lost");
  return wrong || got != threshold ? 1 : 0;
}
