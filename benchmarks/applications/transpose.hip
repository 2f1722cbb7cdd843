// Matrix transpose, naive and through a padded LDS tile; pitched memory with 2D copies.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(e)                                                       \
  ([](hipError_t error, int line) {                                    \
    if (error != hipSuccess) {                                         \
      fprintf(stderr, "line %d: %s\n", line, hipGetErrorName(error));  \
      exit(1);                                                         \
    }                                                                  \
  })((e), __LINE__)

constexpr int TILE = 32, ROWS = 8;

__global__ void naive(const double* in, size_t in_pitch, double* out, size_t out_pitch, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[x * out_pitch + y] = in[y * in_pitch + x];
}

__global__ void tiled(const double* in, size_t in_pitch, double* out, size_t out_pitch, int width, int height) {
  __shared__ double tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * in_pitch + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < height && y + j < width) out[(y + j) * out_pitch + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main() {
  const int width = 130, height = 75;
  std::vector<double> in(width * height), out(width * height);
  for (int i = 0; i < width * height; i++) in[i] = i + 0.25;
  double *d_in, *d_out;
  size_t in_pitch, out_pitch;
  CHECK(hipMallocPitch((void**)&d_in, &in_pitch, width * sizeof(double), height));
  CHECK(hipMallocPitch((void**)&d_out, &out_pitch, height * sizeof(double), width));
  CHECK(hipMemcpy2D(d_in, in_pitch, in.data(), width * sizeof(double), width * sizeof(double), height, hipMemcpyHostToDevice));
  int failures = 0;
  for (int version = 0; version < 2; version++) {
    CHECK(hipMemset2D(d_out, out_pitch, 0xff, height * sizeof(double), width));
    const size_t ip = in_pitch / sizeof(double), op = out_pitch / sizeof(double);
    if (version == 0)
      naive<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(d_in, ip, d_out, op, width, height);
    else
      tiled<<<dim3((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), dim3(TILE, ROWS)>>>(d_in, ip, d_out, op, width, height);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy2D(out.data(), height * sizeof(double), d_out, out_pitch, height * sizeof(double), width, hipMemcpyDeviceToHost));
    int wrong = 0;
    for (int x = 0; x < width; x++)
      for (int y = 0; y < height; y++) wrong += out[x * height + y] != in[y * width + x];
    printf("transpose %s: %d wrong\n", version ? "tiled" : "naive", wrong);
    failures += wrong;
  }
  CHECK(hipFree(d_in));
  CHECK(hipFree(d_out));
  return failures != 0;
}
