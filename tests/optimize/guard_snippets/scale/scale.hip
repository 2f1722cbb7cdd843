#include <hip/hip_runtime.h>

#define GRID(n) (((n) + THREADS - 1) / THREADS)
#define THREADS 256
#define UNUSED_BY_HOST 4

struct Shape {
  int rows, cols;
};

template <typename T>
struct Traits {
  static constexpr int width = 1;
};

__host__ __device__ inline int rounded(int n) { return (n + 3) / 4 * 4; }

__device__ float helper(float x) { return x * 2.0f; }

extern "C" __global__ void other(float* a, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) a[i] = helper(a[i]);
}

extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}

#ifdef WITH_HOST
int launch(const float* x, float* y, Shape shape, hipStream_t stream) {
  int n = rounded(shape.rows * shape.cols) * Traits<float>::width;
  scale<<<GRID(n), THREADS, 0, stream>>>(x, y, 2.0f, n);
  return hipGetLastError() == hipSuccess ? 0 : 1;
}
#endif
