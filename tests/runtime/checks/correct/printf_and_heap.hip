// Output, assertions and memory from the heap of the device, which the runtime synchronises by itself.
#include "../program.h"
#include <cassert>
__global__ void talk(int *out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int *own = static_cast<int *>(malloc(4 * sizeof(int)));
  assert(own);
  for (int k = 0; k < 4; k++) own[k] = t + k;
  out[t] = own[3];
  if (t == 100) printf("item %d\n", own[0]);
  free(own);
}
int main() {
  int *out;
  HIP(hipMalloc(&out, 128 * sizeof(int)));
  talk<<<2, 64>>>(out);
  bool right = host(out, 128)[127] == 130;
  HIP(hipFree(out));
  return ended(right);
}
