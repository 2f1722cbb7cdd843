#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ void heads_first(const __half* input, __half* output, int steps, int width) {
  int column = blockIdx.x * 64 + threadIdx.x;
  int step = blockIdx.y * 4 + threadIdx.y;
  int item = blockIdx.z;
  if (column >= width || step >= steps) return;
  output[((size_t)item * width + column) * steps + step] = input[((size_t)item * steps + step) * width + column];
}
