// Five-point stencil with a halo in LDS, edges clamped; integers, so that the result is exact.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

template <int Width, int Height>
__global__ void stencil(const int* in, int* out, int columns, int rows) {
  __shared__ int tile[Height + 2][Width + 2];
  const int x0 = blockIdx.x * Width, y0 = blockIdx.y * Height;
  for (int k = threadIdx.y * Width + threadIdx.x; k < (Width + 2) * (Height + 2); k += Width * Height) {
    const int x = min(max(x0 + k % (Width + 2) - 1, 0), columns - 1);
    const int y = min(max(y0 + k / (Width + 2) - 1, 0), rows - 1);
    tile[k / (Width + 2)][k % (Width + 2)] = in[y * columns + x];
  }
  __syncthreads();
  const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
  if (x >= columns || y >= rows) return;
  const int i = threadIdx.x + 1, j = threadIdx.y + 1;
  out[y * columns + x] = 4 * tile[j][i] + tile[j - 1][i] + tile[j + 1][i] + tile[j][i - 1] + tile[j][i + 1];
}

int main() {
  const int columns = 250, rows = 130;
  const size_t bytes = columns * rows * sizeof(int);
  std::vector<int> in(columns * rows), out(columns * rows);
  for (size_t i = 0; i < in.size(); i++) in[i] = int(unsigned(i) * 2654435761u >> 22);
  int *d_in = nullptr, *d_out = nullptr;
  bool ok = hipMalloc((void**)&d_in, bytes) == hipSuccess && hipMalloc((void**)&d_out, bytes) == hipSuccess;
  ok = ok && hipMemcpy(d_in, in.data(), bytes, hipMemcpyHostToDevice) == hipSuccess;
  if (ok) {
    const dim3 block(32, 8), grid((columns + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    stencil<32, 8><<<grid, block>>>(d_in, d_out, columns, rows);
    ok = hipDeviceSynchronize() == hipSuccess;
  }
  ok = ok && hipMemcpy(out.data(), d_out, bytes, hipMemcpyDeviceToHost) == hipSuccess;
  if (!ok) {
    fprintf(stderr, "HIP: %s\n", hipGetErrorString(hipGetLastError()));
    return 1;
  }
  auto at = [&](int x, int y) {
    return in[std::clamp(y, 0, rows - 1) * columns + std::clamp(x, 0, columns - 1)];
  };
  long long sum = 0;
  int wrong = 0;
  for (int y = 0; y < rows; y++)
    for (int x = 0; x < columns; x++) {
      const int expected = 4 * at(x, y) + at(x, y - 1) + at(x, y + 1) + at(x - 1, y) + at(x + 1, y);
      wrong += out[y * columns + x] != expected;
      sum += out[y * columns + x];
    }
  printf("stencil_2d: %dx%d sum %lld wrong %d\n", columns, rows, sum, wrong);
  (void)hipFree(d_in);
  (void)hipFree(d_out);
  return wrong ? 1 : 0;
}
