#include <hip/hip_runtime.h>

extern "C" __global__ void layernorm_rows(const float* input, const float* gamma, const float* beta, float* output, int rows, int cols,
                                          float epsilon) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = input + (size_t)row * cols;
  float* out = output + (size_t)row * cols;
  float sum = 0.0f;
  for (int i = 0; i < cols; ++i) sum += in[i];
  float mean = sum / cols;
  float squares = 0.0f;
  for (int i = 0; i < cols; ++i) {
    float distance = in[i] - mean;
    squares += distance * distance;
  }
  float scale = rsqrtf(squares / cols + epsilon);
  for (int i = 0; i < cols; ++i) out[i] = (in[i] - mean) * scale * gamma[i] + beta[i];
}
