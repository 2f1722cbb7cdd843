// Sum, minimum and dot product with shuffles inside wavefronts and one exchange through LDS.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#define hipCheck(call)                                                              \
  {                                                                                 \
    const hipError_t rc = call;                                                     \
    if (rc != hipSuccess) {                                                         \
      std::fprintf(stderr, "[%s:%d] %s\n", __func__, __LINE__, hipGetErrorString(rc)); \
      std::exit(1);                                                                 \
    }                                                                               \
  }

struct Sum {
  static constexpr int neutral = 0;
  __device__ int operator()(int a, int b) const { return a + b; }
};
struct Minimum {
  static constexpr int neutral = INT_MAX;
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

template <typename Operation>
__device__ int wave_reduce(int value, Operation operation) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) value = operation(value, __shfl_down(value, offset));
  return value;
}

template <typename Operation>
__device__ int block_reduce(int value, Operation operation) {
  __shared__ int waves[16];
  const int lane = threadIdx.x % warpSize, wave = threadIdx.x / warpSize, count = blockDim.x / warpSize;
  value = wave_reduce(value, operation);
  if (lane == 0) waves[wave] = value;
  __syncthreads();
  value = lane < count ? waves[lane] : Operation::neutral;
  return wave_reduce(value, operation);
}

__global__ void sum_and_dot(const int* x, int n, int* sum, unsigned long long* dot) {
  int total = 0;
  unsigned long long product = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    total += x[i];
    product += (long long)x[i] * x[i];
  }
  total = block_reduce(total, Sum());
  if (threadIdx.x == 0) atomicAdd(sum, total);
  for (int mask = 32; mask > 0; mask >>= 1) product += __shfl_xor(product, mask);
  if (threadIdx.x % 64 == 0) atomicAdd(dot, product);
}

__global__ void minimum(const int* x, int n, int* result) {
  int least = INT_MAX;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) least = min(least, x[i]);
  least = block_reduce(least, Minimum());
  if (threadIdx.x == 0) atomicMin(result, least);
}

int main() {
  const int n = 100000;
  std::vector<int> x(n);
  for (int i = 0; i < n; i++) x[i] = int((1103515245u * i + 12345u) >> 16) % 20011 - 10000;
  struct Results {
    unsigned long long dot;
    int sum, least;
  } results = {0, 0, INT_MAX};
  int* d_x;
  Results* d_results;
  hipCheck(hipMalloc(&d_x, n * sizeof(int)));
  hipCheck(hipMalloc(&d_results, sizeof(Results)));
  hipCheck(hipMemcpy(d_x, x.data(), n * sizeof(int), hipMemcpyHostToDevice));
  hipCheck(hipMemcpy(d_results, &results, sizeof results, hipMemcpyHostToDevice));
  sum_and_dot<<<20, 512>>>(d_x, n, &d_results->sum, &d_results->dot);
  minimum<<<20, 256>>>(d_x, n, &d_results->least);
  hipCheck(hipGetLastError());
  hipCheck(hipMemcpy(&results, d_results, sizeof results, hipMemcpyDeviceToHost));
  const int sum = std::accumulate(x.begin(), x.end(), 0), least = *std::min_element(x.begin(), x.end());
  unsigned long long dot = 0;
  for (int v : x) dot += (long long)v * v;
  std::printf("sum %d dot %llu minimum %d\n", results.sum, results.dot, results.least);
  hipCheck(hipFree(d_x));
  hipCheck(hipFree(d_results));
  return results.sum == sum && results.dot == dot && results.least == least ? 0 : 1;
}
