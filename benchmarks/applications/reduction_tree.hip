// Sum by a tree in LDS: first per block, then one block adds the partial sums. Templates over type and block size.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_ASSERT(x)                                                    \
  do {                                                                   \
    if ((x) != hipSuccess) {                                             \
      printf("FAILED: %s (%s)\n", #x, hipGetErrorName(hipGetLastError())); \
      exit(3);                                                           \
    }                                                                    \
  } while (false)

template <typename T, unsigned Block>
__global__ void reduce(const T* in, T* out, unsigned n) {
  __shared__ T part[Block];
  const unsigned t = threadIdx.x;
  T sum = 0;
  for (unsigned i = blockIdx.x * Block * 2 + t; i < n; i += gridDim.x * Block * 2) {
    sum += in[i];
    if (i + Block < n) sum += in[i + Block];
  }
  part[t] = sum;
  __syncthreads();
#pragma unroll
  for (unsigned half = Block / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

template <typename T>
static int check(const char* type, unsigned n) {
  constexpr unsigned block = 256, grid = 32;
  std::vector<T> in(n);
  T expected = 0;
  for (unsigned i = 0; i < n; i++) {
    in[i] = T(int((i * 7919u) % 1001u) - 500);
    expected += in[i];  // integers below 2^24 in all partial sums: exact in every order
  }
  T *d_in, *d_part, *d_out, sum = 0;
  HIP_ASSERT(hipMalloc(&d_in, n * sizeof(T)));
  HIP_ASSERT(hipMalloc(&d_part, grid * sizeof(T)));
  HIP_ASSERT(hipMalloc(&d_out, sizeof(T)));
  HIP_ASSERT(hipMemcpy(d_in, in.data(), n * sizeof(T), hipMemcpyHostToDevice));
  reduce<T, block><<<grid, block>>>(d_in, d_part, n);
  reduce<T, 64><<<1, 64>>>(d_part, d_out, grid);
  HIP_ASSERT(hipGetLastError());
  HIP_ASSERT(hipMemcpy(&sum, d_out, sizeof(T), hipMemcpyDeviceToHost));
  HIP_ASSERT(hipFree(d_in));
  HIP_ASSERT(hipFree(d_part));
  HIP_ASSERT(hipFree(d_out));
  printf("sum of %u %s: %lld, %s\n", n, type, (long long)sum, sum == expected ? "correct" : "wrong");
  return sum != expected;
}

int main() {
  int failures = check<float>("float", 65536) + check<double>("double", 50001) + check<int32_t>("int", 12345);
  failures += check<int64_t>("long", 30000) + check<float>("float", 1);
  return failures;
}
