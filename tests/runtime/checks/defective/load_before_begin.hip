// The first work-item reads in front of the buffer, which is in the red zone of the one before it, or in its own.
#include "../program.h"
__global__ void smooth(const float *in, float *out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = in[i - 1] + in[i];  // DEFECT out_of_bounds
}
int main() {
  float *before = device(std::vector<float>(64)), *in = device(std::vector<float>(64)), *out = device(std::vector<float>(64));
  float *low = before < in ? in : before, *other = before < in ? before : in;
  smooth<<<1, 64>>>(low, out, 64);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(low));
  HIP(hipFree(other));
  HIP(hipFree(out));
}
