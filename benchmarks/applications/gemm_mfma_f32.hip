// Matrix cores, single precision: each wavefront computes a 32x32 tile with v_mfma_f32_32x32x2f32.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

typedef float float16v __attribute__((ext_vector_type(16)));

#define CHECK(call)                                                                 \
  if (hipError_t error = call) {                                                    \
    fprintf(stderr, "%s returned %s\n", #call, hipGetErrorName(error));             \
    exit(1);                                                                        \
  }

__global__ void __launch_bounds__(64) gemm(const float* a, const float* b, float* c, int n, int k) {
  const int lane = threadIdx.x, half = lane / 32, at = lane % 32;
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  float16v sum = {0};
  for (int l = half; l < k; l += 2)
    sum = __builtin_amdgcn_mfma_f32_32x32x2f32(a[(row + at) * k + l], b[l * n + column + at], sum, 0, 0, 0);
  for (int i = 0; i < 16; i++) c[(row + 8 * (i / 4) + 4 * half + i % 4) * n + column + at] = sum[i];
}

int main() {
  const int m = 64, n = 96, k = 50;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (int i = 0; i < m * k; i++) a[i] = float((i * 7) % 19 - 9);
  for (int i = 0; i < k * n; i++) b[i] = float((i * 11) % 29 - 14);
  float *da, *db, *dc;
  CHECK(hipMalloc(&da, a.size() * sizeof(float)));
  CHECK(hipMalloc(&db, b.size() * sizeof(float)));
  CHECK(hipMalloc(&dc, c.size() * sizeof(float)));
  CHECK(hipMemcpy(da, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(db, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice));
  gemm<<<dim3(n / 32, m / 32), 64>>>(da, db, dc, n, k);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(c.data(), dc, c.size() * sizeof(float), hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
      wrong += sum != c[i * n + j];
    }
  printf("mfma f32: %d of %d elements wrong, c[5][7] = %.0f\n", wrong, m * n, c[5 * n + 7]);
  CHECK(hipFree(da));
  CHECK(hipFree(db));
  CHECK(hipFree(dc));
  return wrong != 0;
}
