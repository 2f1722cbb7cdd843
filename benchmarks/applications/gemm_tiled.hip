// C = alpha A B + beta C with tiles in dynamic LDS; any size, edges are padded with zeros.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_CHECK(expression)                                                                            \
  {                                                                                                      \
    const hipError_t status = expression;                                                                \
    if (status != hipSuccess) {                                                                          \
      fprintf(stderr, "HIP error %d: %s at %s:%d\n", status, hipGetErrorString(status), __FILE__, __LINE__); \
      exit(1);                                                                                           \
    }                                                                                                    \
  }

__global__ void gemm(int m, int n, int k, float alpha, const float* a, const float* b, float beta, float* c) {
  extern __shared__ float lds[];
  const int tile = blockDim.x;
  float *as = lds, *bs = lds + tile * tile;
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * tile + ty, column = blockIdx.x * tile + tx;
  float sum = 0;
  for (int first = 0; first < k; first += tile) {
    as[ty * tile + tx] = row < m && first + tx < k ? a[row * k + first + tx] : 0;
    bs[ty * tile + tx] = first + ty < k && column < n ? b[(first + ty) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < tile; i++) sum += as[ty * tile + i] * bs[i * tile + tx];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = alpha * sum + beta * c[row * n + column];
}

static int multiply(int m, int n, int k, int tile) {
  std::vector<float> a(m * k), b(k * n), c(m * n), result(m * n);
  for (size_t i = 0; i < a.size(); i++) a[i] = float(int(i * 31 % 17) - 8);
  for (size_t i = 0; i < b.size(); i++) b[i] = float(int(i * 13 % 23) - 11) / 4;
  for (size_t i = 0; i < c.size(); i++) c[i] = float(i % 5);
  float *da, *db, *dc;
  HIP_CHECK(hipMalloc(&da, a.size() * sizeof(float)));
  HIP_CHECK(hipMalloc(&db, b.size() * sizeof(float)));
  HIP_CHECK(hipMalloc(&dc, c.size() * sizeof(float)));
  HIP_CHECK(hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(db, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(dc, c.data(), c.size() * sizeof(float), hipMemcpyHostToDevice));
  const dim3 block(tile, tile), grid((n + tile - 1) / tile, (m + tile - 1) / tile);
  gemm<<<grid, block, 2 * tile * tile * sizeof(float)>>>(m, n, k, 2.0f, da, db, -1.0f, dc);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(result.data(), dc, c.size() * sizeof(float), hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
      wrong += result[i * n + j] != 2 * sum - c[i * n + j];  // multiples of 1/4 below 2^22: exact
    }
  printf("gemm %dx%dx%d, tile %d: %s\n", m, n, k, tile, wrong ? "wrong" : "correct");
  HIP_CHECK(hipFree(da));
  HIP_CHECK(hipFree(db));
  HIP_CHECK(hipFree(dc));
  return wrong;
}

int main() {
  const int wrong = multiply(96, 128, 64, 16) + multiply(50, 70, 33, 16) + multiply(37, 1, 129, 8);
  return wrong ? 1 : 0;
}
