// Rows of a matrix whose size is no multiple of the tile are reversed: the barrier is inside the boundary check, but all work-items go on.
#include "../../program.h"
__global__ void rows(const float *in, float *out, int n) {
  __shared__ float tile[16][17];
  int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  if (column < n && row < n) {
    tile[y][x] = in[row * n + column];
    __syncthreads();  // DEFECT divergent_barrier
  }
  int last = min(15, n - 1 - int(blockIdx.x) * 16);
  out[row * 64 + column] = row < n && x <= last ? tile[y][last - x] : 0;
}
int main() {
  const int n = 56;
  float *in = device(std::vector<float>(n * n, 1)), *out;
  HIP(hipMalloc(&out, 64 * 64 * sizeof(float)));
  rows<<<dim3(4, 4), dim3(16, 16)>>>(in, out, n);
  (void)hipDeviceSynchronize();
  HIP(hipFree(in));
  HIP(hipFree(out));
  return 0;
}
