#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void saxpy(float a, const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }
__global__ void reduce(const float* x, float* out, int n) {
  __shared__ float part[256];
  float s = 0; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  part[threadIdx.x] = s; __syncthreads();
  for (int k = 128; k > 0; k /= 2) { if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k]; __syncthreads(); }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5, n = 1 << 18;
  std::vector<float> x(n, 1.0f), y(n, 2.0f);
  float *dx, *dy, *out; hipMalloc(&dx, n * 4); hipMalloc(&dy, n * 4); hipMalloc(&out, 256 * 4);
  hipMemcpy(dx, x.data(), n * 4, hipMemcpyHostToDevice); hipMemcpy(dy, y.data(), n * 4, hipMemcpyHostToDevice);
  hipStream_t s; hipStreamCreate(&s);
  hipEvent_t e0, e1; hipEventCreate(&e0); hipEventCreate(&e1);
  hipEventRecord(e0, s);
  for (int r = 0; r < rounds; r++) { saxpy<<<n / 256, 256, 0, s>>>(2.0f, dx, dy, n); reduce<<<256, 256, 0, s>>>(dy, out, n); }
  hipEventRecord(e1, s); hipStreamSynchronize(s);
  float ms = 0; hipEventElapsedTime(&ms, e0, e1);
  hipMemcpy(y.data(), dy, n * 4, hipMemcpyDeviceToHost);
  printf("y[0] = %g, %d rounds in %g ms\n", y[0], rounds, ms);
  return y[0] == 2.0f + 2.0f * rounds ? 0 : 1;
}
