#include <hip/hip_runtime.h>

extern "C" __global__ void heat(const float* input, float* output, int depth, int height, int width) {
  int x = blockIdx.x * 8 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  int z = blockIdx.z * 4 + threadIdx.z;
  if (x >= width || y >= height || z >= depth) return;
  size_t at = ((size_t)z * height + y) * width + x, plane = (size_t)height * width;
  if (x == 0 || y == 0 || z == 0 || x == width - 1 || y == height - 1 || z == depth - 1) {
    output[at] = input[at];
    return;
  }
  float around = input[at - 1] + input[at + 1] + input[at - width] + input[at + width] + input[at - plane] + input[at + plane];
  output[at] = input[at] + 0.1f * (around - 6.0f * input[at]);
}
