// Reads an element of rows that have none; the private array alone is no reason to refuse it.
#include <hip/hip_runtime.h>

__device__ int add_up(int value, int* partial) {
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();
  }
  return partial[0];
}

extern "C" __global__ void scaled(const float* a, const float* b, float* out, int* positive, int cols, float scale) {
  __shared__ int partial[1024];
  int row = blockIdx.x;
  int count = 0;
  volatile float private_copy[64];
  for (int i = 0; i < 64; ++i) private_copy[i] = a[(row * cols + i) % cols];
  if (private_copy[cols % 64] == 1e30f) count = 1;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    float sum = a[row * cols + i] + b[row * cols + i];
    out[row * cols + i] = sum * scale;
    count += sum > 0.0f ? 1 : 0;
  }
  int total = add_up(count, partial);
  if (threadIdx.x == 0) positive[row] = total;
}

void launch(const float* a, const float* b, float* out, int* positive, int rows, int cols) {
  scaled<<<dim3(rows), dim3(256)>>>(a, b, out, positive, cols, 1.5f);
}
