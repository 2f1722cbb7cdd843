#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <rocblas/rocblas.h>
#include <hipblas/hipblas.h>
#include <random>
#include "cxxopts.hpp"
#include <nlohmann/json.hpp>
using json = nlohmann::json;
#define CHECK_ROCBLAS(e) if ((e) != rocblas_status_success) { std::abort(); }
template <class T, int BM, int BN, int BK>
__global__ void gemm(int M, int N, int K, T alpha, const T* A, const T* B, T beta, T* C) {
  __shared__ T As[BK][BM];
  __shared__ T Bs[BK][BN];
  int row = blockIdx.y * BM + threadIdx.y, col = blockIdx.x * BN + threadIdx.x;
  float acc = 0.f;
  for (int k0 = 0; k0 < K; k0 += BK) {
    As[threadIdx.x][threadIdx.y] = A[row * K + k0 + threadIdx.x];
    Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) acc += (float)As[k][threadIdx.y] * (float)Bs[k][threadIdx.x];
    __syncthreads();
  }
  C[row * N + col] = (T)((float)alpha * acc + (float)beta * (float)C[row * N + col]);
}
template <typename T>
void run(rocblas_handle handle, const cxxopts::ParseResult& opts) {
  int n = opts["size"].as<int>();
  T *a, *b, *c;
  (void)hipMalloc(&a, n * n * sizeof(T)); (void)hipMalloc(&b, n * n * sizeof(T)); (void)hipMalloc(&c, n * n * sizeof(T));
  dim3 block(16, 16), grid(n / 16, n / 16);
  gemm<T, 16, 16, 16><<<grid, block>>>(n, n, n, T(1), a, b, T(0), c);
  float alpha = 1, beta = 0;
  CHECK_ROCBLAS(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, n, n, n, &alpha, (float*)a, n, (float*)b, n, &beta, (float*)c, n));
}
int main(int argc, char* argv[]) {
  cxxopts::Options options("gemm", "GEMM benchmark");
  options.add_options()("s,size", "matrix size", cxxopts::value<int>()->default_value("1024"))("h,help", "help");
  auto result = options.parse(argc, argv);
  if (result.count("help")) { std::cout << options.help() << std::endl; return 0; }
  rocblas_handle handle;
  CHECK_ROCBLAS(rocblas_create_handle(&handle));
  run<float>(handle, result);
  run<__half>(handle, result);
  json j;
  j["size"] = result["size"].as<int>();
  rocblas_destroy_handle(handle);
}
