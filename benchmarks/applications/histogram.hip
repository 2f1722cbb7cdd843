// Histogram of bytes: private counters in LDS per block, added to memory with atomics; a second version without LDS.
#include <hip/hip_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define gpuErrchk(call) gpu_assert((call), __FILE__, __LINE__)
inline void gpu_assert(hipError_t code, const char* file, int line) {
  if (code != hipSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", hipGetErrorString(code), file, line);
    exit(code);
  }
}

__global__ void histogram_lds(const uchar4* data, size_t n, unsigned* bins) {
  __shared__ unsigned local[256];
  for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const uchar4 v = data[i];
    atomicAdd(&local[v.x], 1u);
    atomicAdd(&local[v.y], 1u);
    atomicAdd(&local[v.z], 1u);
    atomicAdd(&local[v.w], 1u);
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
    if (local[b]) atomicAdd(&bins[b], local[b]);
}

__global__ void histogram_direct(const unsigned char* data, size_t n, unsigned* bins) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1u);
}

int main() {
  const size_t n = 1 << 16;
  std::vector<unsigned char> text(n);
  unsigned state = 1;
  for (auto& c : text) {
    state = state * 1664525u + 1013904223u;
    c = (unsigned char)((state >> 24) & (state >> 16));  // uneven distribution
  }
  std::array<unsigned, 256> expected{}, fast{}, direct{};
  for (auto c : text) expected[c]++;
  unsigned char* data;
  unsigned* bins;
  gpuErrchk(hipMalloc(&data, n));
  gpuErrchk(hipMalloc(&bins, 2 * sizeof fast));
  gpuErrchk(hipMemset(bins, 0, 2 * sizeof fast));
  gpuErrchk(hipMemcpy(data, text.data(), n, hipMemcpyHostToDevice));
  histogram_lds<<<16, 256>>>(reinterpret_cast<const uchar4*>(data), n / 4, bins);
  gpuErrchk(hipGetLastError());
  histogram_direct<<<n / 256, 256>>>(data, n, bins + 256);
  gpuErrchk(hipGetLastError());
  gpuErrchk(hipMemcpy(fast.data(), bins, sizeof fast, hipMemcpyDeviceToHost));
  gpuErrchk(hipMemcpy(direct.data(), bins + 256, sizeof direct, hipMemcpyDeviceToHost));
  printf("zeros %u, 255s %u, lds %s, direct %s\n", fast[0], fast[255], fast == expected ? "ok" : "wrong",
         direct == expected ? "ok" : "wrong");
  gpuErrchk(hipFree(data));
  gpuErrchk(hipFree(bins));
  return fast == expected && direct == expected ? 0 : 1;
}
