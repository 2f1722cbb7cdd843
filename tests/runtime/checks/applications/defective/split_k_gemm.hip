// Matrix product with the inner dimension split over workgroups: the partial sums meet in one element without an atomic addition.
#include "../../program.h"
constexpr int M = 64, K = 256, SPLIT = 4;
__global__ void gemm(const float *a, const float *b, float *c) {
  int row = blockIdx.x * 16 + threadIdx.y, column = blockIdx.y * 16 + threadIdx.x;
  int begin = blockIdx.z * (K / SPLIT), end = begin + K / SPLIT;
  float sum = 0;
  for (int k = begin; k < end; k++) sum += a[row * K + k] * b[k * M + column];
  c[row * M + column] += sum;  // DEFECT memory_race
}
int main() {
  float *a = device(std::vector<float>(M * K, 1)), *b = device(std::vector<float>(K * M, 1)), *c = device(std::vector<float>(M * M));
  gemm<<<dim3(M / 16, M / 16, SPLIT), dim3(16, 16)>>>(a, b, c);
  HIP(hipGetLastError());
  host(c, M * M);
  for (float *memory : {a, b, c}) HIP(hipFree(memory));
  return ended(true);
}
