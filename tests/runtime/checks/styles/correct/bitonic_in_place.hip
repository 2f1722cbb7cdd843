// Bitonic sort in place: steps inside a workgroup in LDS, wide steps in global memory, one launch each.
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdio>
#include <vector>

template <class T>
__device__ void order(T &a, T &b, bool ascending) {
  if ((a > b) == ascending) {
    T t = a;
    a = b;
    b = t;
  }
}

__global__ void wide(unsigned *data, unsigned size, unsigned stride) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (stride - 1));
  order(data[i], data[i + stride], (i & size) == 0);
}

__global__ void narrow(unsigned *data, unsigned size, unsigned stride) {
  extern __shared__ unsigned tile[];
  const unsigned first = blockIdx.x * blockDim.x * 2;
  tile[threadIdx.x] = data[first + threadIdx.x];
  tile[threadIdx.x + blockDim.x] = data[first + threadIdx.x + blockDim.x];
  for (; stride; stride >>= 1) {
    __syncthreads();
    unsigned i = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
    order(tile[i], tile[i + stride], ((first + i) & size) == 0);
  }
  __syncthreads();
  data[first + threadIdx.x] = tile[threadIdx.x];
  data[first + threadIdx.x + blockDim.x] = tile[threadIdx.x + blockDim.x];
}

int main() {
  constexpr unsigned n = 1024, block = 64;
  std::vector<unsigned> host(n);
  for (unsigned i = 0; i < n; i++) host[i] = i * 2654435761u;
  unsigned *data;
  if (hipMalloc(&data, n * 4) != hipSuccess || hipMemcpy(data, host.data(), n * 4, hipMemcpyHostToDevice) != hipSuccess) return 1;
  for (unsigned size = 2; size <= n; size *= 2) {
    unsigned stride = size / 2;
    for (; stride > block; stride /= 2) wide<<<n / 2 / block, block>>>(data, size, stride);
    narrow<<<n / 2 / block, block, 2 * block * sizeof(unsigned)>>>(data, size, stride);
  }
  std::vector<unsigned> sorted(n);
  if (hipMemcpy(sorted.data(), data, n * 4, hipMemcpyDeviceToHost) != hipSuccess || hipFree(data) != hipSuccess) return 1;
  std::sort(host.begin(), host.end());
  if (host != sorted) return 2;
  std::puts("right");
}
