#include <hip/hip_runtime.h>

extern "C" __global__ void quantize_rows(const float* input, signed char* output, float* scale, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float largest = 1e-8f;
  for (int i = 0; i < cols; ++i) largest = fmaxf(largest, fabsf(in[i]));
  float factor = 127.0f / largest;
  for (int i = 0; i < cols; ++i) {
    float value = rintf(in[i] * factor);
    value = fminf(fmaxf(value, -127.0f), 127.0f);
    output[(size_t)row * cols + i] = (signed char)(int)value;
  }
  scale[row] = largest / 127.0f;
}
