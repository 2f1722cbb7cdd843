// The five kernels of BabelStream: one fp64 element per work-item, and a dot product with a tree in LDS.
#include <hip/hip_runtime.h>
#define K extern "C" __global__
#define ELEMENT const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x
#define SCALAR 0.4

K void babel_copy(double* a, double* b, double* c, double* sums, size_t n) { ELEMENT; c[i] = a[i]; }
K void babel_mul(double* a, double* b, double* c, double* sums, size_t n) { ELEMENT; b[i] = SCALAR * c[i]; }
K void babel_add(double* a, double* b, double* c, double* sums, size_t n) { ELEMENT; c[i] = a[i] + b[i]; }
K void babel_triad(double* a, double* b, double* c, double* sums, size_t n) { ELEMENT; a[i] = b[i] + SCALAR * c[i]; }
K void babel_dot(double* a, double* b, double* c, double* sums, size_t n) {
  __shared__ double partial[1024];
  double sum = 0;
  for (size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x; i < n; i += (size_t)gridDim.x * 1024) sum += a[i] * b[i];
  partial[threadIdx.x] = sum;
  for (int offset = 512; offset > 0; offset /= 2) {
    __syncthreads();
    if (threadIdx.x < offset) partial[threadIdx.x] += partial[threadIdx.x + offset];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}
