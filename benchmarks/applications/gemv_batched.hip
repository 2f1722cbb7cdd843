// Batched matrix-vector product: an array of pointers, one wavefront per row, vector loads.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIPCHECK(error)                                                                     \
  {                                                                                         \
    hipError_t localError = error;                                                          \
    if ((localError != hipSuccess) && (localError != hipErrorPeerAccessAlreadyEnabled)) {   \
      printf("error: '%s'(%d) from %s at %s:%d\n", hipGetErrorString(localError), localError, #error, __FILE__, __LINE__); \
      exit(EXIT_FAILURE);                                                                   \
    }                                                                                       \
  }

__global__ void gemv(const float4* const* matrices, const float4* const* vectors, float* const* results, int rows, int columns4) {
  const int batch = blockIdx.y, row = blockIdx.x * (blockDim.x / 64) + threadIdx.x / 64, lane = threadIdx.x % 64;
  if (row >= rows) return;
  const float4* a = matrices[batch] + size_t(row) * columns4;
  const float4* x = vectors[batch];
  float sum = 0;
  for (int j = lane; j < columns4; j += 64) {
    const float4 p = a[j], q = x[j];
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  for (int offset = 32; offset; offset >>= 1) sum += __shfl_down(sum, offset);
  if (lane == 0) results[batch][row] = sum;
}

int main() {
  const int batches = 5, rows = 50, columns = 300;
  std::vector<float*> a(batches), x(batches), y(batches);
  std::vector<std::vector<float>> host_a(batches), host_x(batches);
  for (int i = 0; i < batches; i++) {
    host_a[i].resize(rows * columns);
    host_x[i].resize(columns);
    for (int j = 0; j < rows * columns; j++) host_a[i][j] = float((j * (i + 3)) % 21 - 10);
    for (int j = 0; j < columns; j++) host_x[i][j] = float((j + i) % 9 - 4);
    HIPCHECK(hipMalloc(&a[i], rows * columns * sizeof(float)));
    HIPCHECK(hipMalloc(&x[i], columns * sizeof(float)));
    HIPCHECK(hipMalloc(&y[i], rows * sizeof(float)));
    HIPCHECK(hipMemcpy(a[i], host_a[i].data(), rows * columns * sizeof(float), hipMemcpyHostToDevice));
    HIPCHECK(hipMemcpy(x[i], host_x[i].data(), columns * sizeof(float), hipMemcpyHostToDevice));
  }
  void** pointers;
  HIPCHECK(hipMalloc(&pointers, 3 * batches * sizeof(void*)));
  HIPCHECK(hipMemcpy(pointers, a.data(), batches * sizeof(void*), hipMemcpyHostToDevice));
  HIPCHECK(hipMemcpy(pointers + batches, x.data(), batches * sizeof(void*), hipMemcpyHostToDevice));
  HIPCHECK(hipMemcpy(pointers + 2 * batches, y.data(), batches * sizeof(void*), hipMemcpyHostToDevice));
  gemv<<<dim3((rows + 3) / 4, batches), 256>>>((const float4* const*)pointers, (const float4* const*)(pointers + batches),
                                              (float* const*)(pointers + 2 * batches), rows, columns / 4);
  HIPCHECK(hipGetLastError());
  int wrong = 0;
  for (int i = 0; i < batches; i++) {
    std::vector<float> result(rows);
    HIPCHECK(hipMemcpy(result.data(), y[i], rows * sizeof(float), hipMemcpyDeviceToHost));
    for (int r = 0; r < rows; r++) {
      float sum = 0;
      for (int j = 0; j < columns; j++) sum += host_a[i][r * columns + j] * host_x[i][j];
      wrong += sum != result[r];
    }
    HIPCHECK(hipFree(a[i]));
    HIPCHECK(hipFree(x[i]));
    HIPCHECK(hipFree(y[i]));
  }
  HIPCHECK(hipFree(pointers));
  printf("batched gemv: %d batches of %dx%d, %d wrong\n", batches, rows, columns, wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
