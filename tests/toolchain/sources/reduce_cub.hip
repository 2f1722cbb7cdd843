#include <hip/hip_runtime.h>
#include <hipcub/hipcub.hpp>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/execution_policy.h>
#include <benchmark/benchmark.h>
#include <iostream>
#include <iomanip>
constexpr int BLOCK = 256;
__constant__ float coeff[16];
__managed__ int counter = 0;
__device__ unsigned long long total;
template <typename T> __global__ void block_sum(const T* in, T* out, size_t n) {
  extern __shared__ __align__(16) unsigned char raw[];
  T* s = reinterpret_cast<T*>(raw);
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] * coeff[threadIdx.x & 15] : T(0);
  __syncthreads();
  for (int o = blockDim.x / 2; o > 0; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o]; __syncthreads(); }
  if (threadIdx.x == 0) { atomicAdd(out, s[0]); atomicAdd(&counter, 1); atomicAdd(&total, 1ull); }
}
template <class T> T reference(const thrust::device_vector<T>& v) { return thrust::reduce(thrust::device, v.begin(), v.end(), T(0)); }
static void BM_Sum(benchmark::State& state) {
  size_t n = state.range(0);
  thrust::device_vector<float> d(n, 1.f), o(1);
  for (auto _ : state) {
    block_sum<float><<<(n + BLOCK - 1) / BLOCK, BLOCK, BLOCK * sizeof(float)>>>(thrust::raw_pointer_cast(d.data()), thrust::raw_pointer_cast(o.data()), n);
    hipDeviceSynchronize();
  }
  state.SetBytesProcessed(state.iterations() * n * sizeof(float));
}
BENCHMARK(BM_Sum)->Range(1 << 10, 1 << 24);
BENCHMARK_MAIN();
int unused_cub() {
  void* tmp = nullptr; size_t bytes = 0; double *in = nullptr, *out = nullptr; int n = 100;
  hipcub::DeviceReduce::Sum(tmp, bytes, in, out, n);
  block_sum<double><<<1, BLOCK, BLOCK * 8>>>(in, out, n);
  hipMemcpyToSymbol(HIP_SYMBOL(coeff), in, sizeof(float) * 16);
  return 0;
}
