// Stencil with a halo in dynamic LDS: the host computes the size for one side of the halo.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

extern __shared__ unsigned char workspace[];

template <int Radius>
__global__ void blur(const float *in, float *out, int n) {
  float *tile = reinterpret_cast<float *>(workspace);
  const int local = int(threadIdx.x) + Radius, global = int(blockIdx.x * blockDim.x + threadIdx.x);
  tile[local] = in[global];  // DEFECT lds_out_of_bounds
  if (threadIdx.x < Radius) {
    tile[local - Radius] = global >= Radius ? in[global - Radius] : 0.0f;
    tile[local + blockDim.x] = global + blockDim.x < unsigned(n) ? in[global + blockDim.x] : 0.0f;  // DEFECT lds_out_of_bounds
  }
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = -Radius; k <= Radius; ++k) sum += tile[local + k];  // DEFECT lds_out_of_bounds
  out[global] = sum;
}

int main() {
  constexpr int radius = 4, block = 128, n = 8 * block;
  float *in, *out;
  if (hipMalloc(&in, n * sizeof(float)) || hipMalloc(&out, n * sizeof(float))) return 1;
  std::vector<float> host(n, 1.f);
  if (hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice)) return 1;
  blur<radius><<<n / block, block, (block + radius) * sizeof(float)>>>(in, out, n);
  if (hipMemcpy(host.data(), out, n * sizeof(float), hipMemcpyDeviceToHost)) return 1;
  std::printf("%g\n", host[100]);
  return hipFree(in) || hipFree(out);
}
