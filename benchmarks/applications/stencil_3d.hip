// Seven-point stencil in three dimensions: planes of LDS move along z, the column is kept in registers.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void hip_ok(hipError_t code, int line) {
  if (code == hipSuccess) return;
  std::fprintf(stderr, "line %d: %s\n", line, hipGetErrorString(code));
  std::abort();
}
#define OK(call) hip_ok(call, __LINE__)

constexpr int N = 32, TX = 16, TY = 16;

__device__ int at(int x, int y, int z) { return (z * N + y) * N + x; }

__global__ void __launch_bounds__(TX* TY) laplace(const float* in, float* out) {
  __shared__ float plane[TY][TX];
  const int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
  float below = 0, here = in[at(x, y, 0)], above = in[at(x, y, 1)];
  for (int z = 0; z < N; z++) {
    plane[threadIdx.y][threadIdx.x] = here;
    __syncthreads();
    const float left = x == 0 ? 0 : threadIdx.x > 0 ? plane[threadIdx.y][threadIdx.x - 1] : in[at(x - 1, y, z)];
    const float right = x == N - 1 ? 0 : threadIdx.x < TX - 1 ? plane[threadIdx.y][threadIdx.x + 1] : in[at(x + 1, y, z)];
    const float front = y == 0 ? 0 : threadIdx.y > 0 ? plane[threadIdx.y - 1][threadIdx.x] : in[at(x, y - 1, z)];
    const float back = y == N - 1 ? 0 : threadIdx.y < TY - 1 ? plane[threadIdx.y + 1][threadIdx.x] : in[at(x, y + 1, z)];
    out[at(x, y, z)] = left + right + front + back + below + above - 6 * here;
    __syncthreads();
    below = here;
    here = above;
    above = z + 2 < N ? in[at(x, y, z + 2)] : 0;
  }
}

int main() {
  std::vector<float> in(N * N * N), out(N * N * N);
  for (int i = 0; i < N * N * N; i++) in[i] = float((i * 37) % 101) - 50;  // small integers: sums are exact
  float *d_in, *d_out;
  OK(hipMalloc(&d_in, in.size() * sizeof(float)));
  OK(hipMalloc(&d_out, out.size() * sizeof(float)));
  OK(hipMemcpyHtoD(d_in, in.data(), in.size() * sizeof(float)));
  laplace<<<dim3(N / TX, N / TY), dim3(TX, TY)>>>(d_in, d_out);
  OK(hipGetLastError());
  OK(hipDeviceSynchronize());
  OK(hipMemcpyDtoH(out.data(), d_out, out.size() * sizeof(float)));
  auto value = [&](int x, int y, int z) {
    const bool inside = x >= 0 && y >= 0 && z >= 0 && x < N && y < N && z < N;
    return inside ? in[(z * N + y) * N + x] : 0.0f;
  };
  int wrong = 0;
  double total = 0;
  for (int z = 0; z < N; z++)
    for (int y = 0; y < N; y++)
      for (int x = 0; x < N; x++) {
        const float expected = value(x - 1, y, z) + value(x + 1, y, z) + value(x, y - 1, z) + value(x, y + 1, z) +
                               value(x, y, z - 1) + value(x, y, z + 1) - 6 * value(x, y, z);
        wrong += out[(z * N + y) * N + x] != expected;
        total += out[(z * N + y) * N + x];
      }
  std::printf("stencil_3d: %d^3 points, %d wrong, total %.0f\n", N, wrong, total);
  OK(hipFree(d_in));
  OK(hipFree(d_out));
  return wrong != 0;
}
