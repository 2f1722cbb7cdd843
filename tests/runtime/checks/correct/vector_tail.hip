// Vectors of four where they fit, single elements at the tail, in a buffer whose size is no multiple of 16 bytes.
#include "../program.h"
__global__ void twice(const float *in, float *out, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    float4 v = *reinterpret_cast<const float4 *>(in + i);
    *reinterpret_cast<float4 *>(out + i) = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
  } else {
    for (; i < n; i++) out[i] = 2 * in[i];
  }
}
int main() {
  const int n = 1003;
  float *in = device(std::vector<float>(n, 1.5f)), *out;
  HIP(hipMalloc(&out, n * sizeof(float)));
  twice<<<4, 64>>>(in, out, n);
  std::vector<float> result = host(out, n);
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(result[0] == 3 && result[n - 1] == 3);
}
