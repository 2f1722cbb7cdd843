// Square matrix transposed in place: each pair of tiles belongs to one workgroup; the others end early.
#include "../../program.h"
constexpr int N = 128, T = 16;
__global__ void transpose(int *m) {
  __shared__ int upper[T][T + 1], lower[T][T + 1];
  if (blockIdx.x < blockIdx.y) return;
  int x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x * T, by = blockIdx.y * T;
  upper[y][x] = m[(by + y) * N + bx + x];
  if (bx != by) lower[y][x] = m[(bx + y) * N + by + x];
  __syncthreads();
  m[(bx + y) * N + by + x] = upper[x][y];
  if (bx != by) m[(by + y) * N + bx + x] = lower[x][y];
}
int main() {
  std::vector<int> values(N * N);
  for (int i = 0; i < N * N; i++) values[i] = i;
  int *m = device(values);
  transpose<<<dim3(N / T, N / T), dim3(T, T)>>>(m);
  bool right = true;
  auto result = host(m, N * N);
  for (int r = 0; r < N; r++)
    for (int c = 0; c < N; c++) right = right && result[r * N + c] == c * N + r;
  HIP(hipFree(m));
  return ended(right);
}
