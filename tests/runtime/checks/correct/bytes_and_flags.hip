// Wavefronts write neighbouring bytes of one dword, and all of them set the same flag.
#include "../program.h"
__global__ void mark(const int *in, unsigned char *seen, int *found) {
  int t = threadIdx.x;
  seen[(t % 64) * 4 + t / 64] = (unsigned char)in[t];
  if (in[t] == 1) *found = 1;
}
int main() {
  int *in = device(std::vector<int>(256, 1)), *found = device(std::vector<int>(1));
  unsigned char *seen;
  HIP(hipMalloc(&seen, 256));
  mark<<<1, 256>>>(in, seen, found);
  bool right = host(seen, 256)[255] == 1 && host(found, 1)[0] == 1;
  HIP(hipFree(in));
  HIP(hipFree(found));
  HIP(hipFree(seen));
  return ended(right);
}
