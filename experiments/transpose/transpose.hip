// Transposes a matrix through a tile in LDS. Reading the tile by columns makes all lanes of a half wavefront meet in one bank.
#include <hip/hip_runtime.h>

#ifndef TILE
#define TILE 32
#endif
#define ROWS 8

extern "C" __global__ void transpose(const float* input, float* output, int rows, int cols) {
  __shared__ float tile[TILE][TILE];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int step = 0; step < TILE; step += ROWS) {
    if (x < cols && y + step < rows) tile[threadIdx.y + step][threadIdx.x] = input[(size_t)(y + step) * cols + x];
  }
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int step = 0; step < TILE; step += ROWS) {
    if (x < rows && y + step < cols) output[(size_t)(y + step) * rows + x] = tile[threadIdx.x][threadIdx.y + step];
  }
}
