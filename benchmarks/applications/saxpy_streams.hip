// SAXPY in chunks: each stream copies in, computes and copies out its part from pinned host memory.
#include <hip/hip_runtime.h>

#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>

static void check(hipError_t error, const char* what) {
  if (error != hipSuccess) throw std::runtime_error(std::string(what) + ": " + hipGetErrorName(error));
}

__global__ void saxpy(int n, float a, const float* __restrict__ x, float* __restrict__ y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = fmaf(a, x[i], y[i]);
}

static int run() {
  constexpr int streams = 4, chunk = 16384, n = streams * chunk;
  float *x, *y, *d_x, *d_y;
  check(hipHostMalloc(&x, n * sizeof(float), hipHostMallocDefault), "pinned x");
  check(hipHostMalloc(&y, n * sizeof(float), hipHostMallocDefault), "pinned y");
  check(hipMalloc(&d_x, n * sizeof(float)), "device x");
  check(hipMalloc(&d_y, n * sizeof(float)), "device y");
  for (int i = 0; i < n; i++) {
    x[i] = float(i % 1000) / 8;
    y[i] = float(i % 77);
  }
  hipStream_t stream[streams];
  for (auto& s : stream) check(hipStreamCreateWithFlags(&s, hipStreamNonBlocking), "stream");
  for (int k = 0; k < streams; k++) {
    const int at = k * chunk;
    const size_t bytes = chunk * sizeof(float);
    check(hipMemcpyAsync(d_x + at, x + at, bytes, hipMemcpyHostToDevice, stream[k]), "copy x");
    check(hipMemcpyAsync(d_y + at, y + at, bytes, hipMemcpyHostToDevice, stream[k]), "copy y");
    hipLaunchKernelGGL(saxpy, dim3(32), dim3(256), 0, stream[k], chunk, 2.5f, d_x + at, d_y + at);
    check(hipGetLastError(), "launch");
    check(hipMemcpyAsync(y + at, d_y + at, bytes, hipMemcpyDeviceToHost, stream[k]), "copy back");
  }
  for (auto& s : stream) check(hipStreamSynchronize(s), "synchronize");
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += y[i] != std::fmaf(2.5f, float(i % 1000) / 8, float(i % 77));
  std::cout << "saxpy: " << streams << " streams, " << n << " elements, " << wrong << " wrong" << std::endl;
  for (auto& s : stream) check(hipStreamDestroy(s), "destroy");
  check(hipFree(d_x), "free");
  check(hipFree(d_y), "free");
  check(hipHostFree(x), "free");
  check(hipHostFree(y), "free");
  return wrong ? 1 : 0;
}

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 2;
  }
}
