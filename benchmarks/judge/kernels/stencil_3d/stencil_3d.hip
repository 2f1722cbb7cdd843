// Mean of the six neighbours in a periodic volume; a work-item walks along z.
#include <hip/hip_runtime.h>

extern "C" __global__ void stencil_3d(const float* input, float* output, int nx, int ny, int nz) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  if (x >= nx || y >= ny) return;
  int left = x == 0 ? nx - 1 : x - 1, right = x == nx - 1 ? 0 : x + 1;
  int up = y == 0 ? ny - 1 : y - 1, down = y == ny - 1 ? 0 : y + 1;
  size_t plane = (size_t)nx * ny;
  for (int z = 0; z < nz; ++z) {
    int before = z == 0 ? nz - 1 : z - 1, after = z == nz - 1 ? 0 : z + 1;
    const float* here = input + z * plane;
    float sum = here[(size_t)y * nx + left] + here[(size_t)y * nx + right];
    sum += here[(size_t)up * nx + x] + here[(size_t)down * nx + x];
    sum += input[before * plane + (size_t)y * nx + x] + input[after * plane + (size_t)y * nx + x];
    output[z * plane + (size_t)y * nx + x] = sum * (1.0f / 6.0f);
  }
}
