#include <hip/hip_runtime.h>

// C = A B^T on the matrix cores: bfloat16 inputs (k is contiguous), float32 result. A wavefront computes 64 x 64.
typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));

extern "C" __global__ void gemm_bf16(const short* a, const short* b, float* c, int n, int k) {
  int lane = threadIdx.x % 64, row = (blockIdx.y * 4 + threadIdx.x / 64) * 64, column = blockIdx.x * 64;
  f32x4 sum[4][4] = {};
  for (int inner = 4 * (lane / 16); inner < k; inner += 16) {
    bf16x4 left[4], right[4];
    for (int t = 0; t < 4; t++) {
      left[t] = *(const bf16x4*)(a + (row + 16 * t + lane % 16) * k + inner);
      right[t] = *(const bf16x4*)(b + (column + 16 * t + lane % 16) * k + inner);
    }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) sum[i][j] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left[i], right[j], sum[i][j], 0, 0, 0);
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++) c[(row + 16 * i + 4 * (lane / 16) + e) * n + column + 16 * j + lane % 16] = sum[i][j][e];
}
