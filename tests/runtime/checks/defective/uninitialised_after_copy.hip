// One kernel copies uninitialised values, which is no defect; the second one computes with them.
#include "../program.h"
__global__ void copy(const int *in, int *out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void twice(int *data) {
  data[threadIdx.x] *= 2;  // DEFECT memory_uninitialised
}
int main() {
  int *in, *out;
  HIP(hipMalloc(&in, 256));
  HIP(hipMalloc(&out, 256));
  copy<<<1, 64>>>(in, out);
  twice<<<1, 64>>>(out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(in));
  HIP(hipFree(out));
}
