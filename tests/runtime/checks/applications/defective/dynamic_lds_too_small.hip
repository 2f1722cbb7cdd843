// Dynamic LDS of the launch counts elements instead of bytes.
#include "../../program.h"
__global__ void reverse(const double *in, double *out) {
  extern __shared__ double tile[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = in[i];  // DEFECT lds_out_of_bounds
  __syncthreads();
  out[i] = tile[blockDim.x - 1 - t];  // DEFECT lds_out_of_bounds
}
int main() {
  const int n = 1024;
  double *in = device(std::vector<double>(n, 2)), *out;
  HIP(hipMalloc(&out, n * sizeof(double)));
  reverse<<<n / 256, 256, 256>>>(in, out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
