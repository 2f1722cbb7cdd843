// One Jacobi step for the Poisson equation on a box, in double precision; values on the faces of the box are kept.
#include <hip/hip_runtime.h>

extern "C" __global__ void jacobi_3d(const double* u, const double* f, double* out, double spacing, int nx, int ny, int nz) {
  int x = blockIdx.x * 16 + threadIdx.x;
  int y = blockIdx.y * 4 + threadIdx.y;
  int z = blockIdx.z * 4 + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  size_t plane = (size_t)nx * ny;
  size_t i = z * plane + (size_t)y * nx + x;
  if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
    out[i] = u[i];
    return;
  }
  double sum = u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - plane] + u[i + plane];
  out[i] = (sum - spacing * spacing * f[i]) / 6.0;
}
