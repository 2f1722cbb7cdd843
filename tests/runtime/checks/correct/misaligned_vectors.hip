// Vector and LDS accesses work at any address.
#include "../program.h"
__global__ void shifted(const char *in, char *out) {
  __shared__ char tile[260];
  int t = threadIdx.x;
  *reinterpret_cast<int *>(tile + 2 + 4 * t) = *reinterpret_cast<const int *>(in + 1 + 4 * t);
  __syncthreads();
  *reinterpret_cast<int *>(out + 3 + 4 * t) = *reinterpret_cast<int *>(tile + 2 + 4 * (63 - t));
}
int main() {
  std::vector<char> values(260);
  for (int k = 0; k < 260; k++) values[k] = static_cast<char>(k);
  char *in = device(values), *out = device(std::vector<char>(260));
  shifted<<<1, 64>>>(in, out);
  auto got = host(out, 260);
  bool right = true;
  for (int k = 0; k < 256; k++) right = right && got[3 + k] == values[1 + 4 * (63 - k / 4) + k % 4];
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(right);
}
