#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

extern "C" __global__ void rmsnorm_rows(const __half* input, const float* weight, float* output, int rows, int cols, float epsilon) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float squares = 0.0f;
  for (int i = 0; i < cols; ++i) {
    float value = __half2float(input[row * cols + i]);
    squares += value * value;
  }
  float scale = 1.0f / sqrtf(squares / cols + epsilon);
  for (int i = 0; i < cols; ++i) {
    output[row * cols + i] = __half2float(input[row * cols + i]) * scale * weight[i];
  }
}
