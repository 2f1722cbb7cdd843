// Product of matrices: two tiles in LDS, one barrier per step, the next tile waits in registers.
#include "../../program.h"
constexpr int N = 64, T = 16;
__global__ void gemm(const float *a, const float *b, float *c) {
  __shared__ float as[2][T][T + 1], bs[2][T][T];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
  as[0][y][x] = a[row * N + x];
  bs[0][y][x] = b[y * N + column];
  __syncthreads();
  float sum = 0;
  for (int k = 0, now = 0; k < N; k += T, now ^= 1) {
    float next_a = 0, next_b = 0;
    if (k + T < N) {
      next_a = a[row * N + k + T + x];
      next_b = b[(k + T + y) * N + column];
    }
    for (int i = 0; i < T; i++) sum += as[now][y][i] * bs[now][i][x];
    if (k + T < N) {
      as[now ^ 1][y][x] = next_a;
      bs[now ^ 1][y][x] = next_b;
    }
    __syncthreads();
  }
  c[row * N + column] = sum;
}
int main() {
  float *a = device(std::vector<float>(N * N, 1)), *b = device(std::vector<float>(N * N, 2)), *c;
  HIP(hipMalloc(&c, N * N * sizeof(float)));
  gemm<<<dim3(N / T, N / T), dim3(T, T)>>>(a, b, c);
  bool right = true;
  for (float value : host(c, N * N)) right = right && value == 2 * N;
  for (float *memory : {a, b, c}) HIP(hipFree(memory));
  return ended(right);
}
