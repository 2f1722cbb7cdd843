// 2D convolution with a 15 x 15 filter in constant memory, with the parameters of the landscape convolution_W6600: each work-item
// computes TILE_X x TILE_Y outputs, a workgroup apart in x and y, from LDS (USE_SHMEM) or global memory.
#include <hip/hip_runtime.h>

#define FILTER 15
#define BORDER (FILTER - 1)
#define WIDTH (BLOCK_X * TILE_X + BORDER)
#define HEIGHT (BLOCK_Y * TILE_Y + BORDER)
// A row that is a multiple of 32 words would put a column into one bank.
#define PITCH (WIDTH + (USE_PADDING ? (32 - WIDTH % 32 + BLOCK_X % 32) % 32 : 0))

__device__ float load(const float* p) {
#if READ_ONLY
  return __builtin_nontemporal_load(p);
#else
  return *p;
#endif
}

extern "C" __global__ __launch_bounds__(BLOCK_X* BLOCK_Y) void convolution(const float* __restrict__ input,
                                                                             const float* __restrict__ filter,
                                                                             float* __restrict__ output, int width, int height) {
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x0 = blockIdx.x * BLOCK_X * TILE_X, y0 = blockIdx.y * BLOCK_Y * TILE_Y;
  const int pitch = width + BORDER;
  float sum[TILE_Y][TILE_X] = {};
#if USE_SHMEM
  __shared__ float tile[HEIGHT][PITCH];
  for (int y = ty; y < HEIGHT; y += BLOCK_Y)
    for (int x = tx; x < WIDTH; x += BLOCK_X)
      tile[y][x] = y0 + y < height + BORDER && x0 + x < pitch ? load(input + (size_t)(y0 + y) * pitch + x0 + x) : 0;
  __syncthreads();
#endif
  for (int fy = 0; fy < FILTER; fy++)
    for (int fx = 0; fx < FILTER; fx++) {
      const float weight = filter[fy * FILTER + fx];
#pragma unroll
      for (int j = 0; j < TILE_Y; j++)
#pragma unroll
        for (int i = 0; i < TILE_X; i++) {
          const int y = ty + j * BLOCK_Y + fy, x = tx + i * BLOCK_X + fx;
#if USE_SHMEM
          sum[j][i] += tile[y][x] * weight;
#else
          if (y0 + y < height + BORDER && x0 + x < pitch) sum[j][i] += load(input + (size_t)(y0 + y) * pitch + x0 + x) * weight;
#endif
        }
    }
#pragma unroll
  for (int j = 0; j < TILE_Y; j++)
#pragma unroll
    for (int i = 0; i < TILE_X; i++) {
      const int y = y0 + ty + j * BLOCK_Y, x = x0 + tx + i * BLOCK_X;
      if (y < height && x < width) output[(size_t)y * width + x] = sum[j][i];
    }
}
