// A word at an odd address is read by a scalar load, which ignores the lowest bits.
#include "../program.h"
__global__ void first(const char *bytes, int *out, int at) {
  if (threadIdx.x == 0) *out = *reinterpret_cast<const int *>(bytes + at);  // DEFECT misaligned
}
int main() {
  char *bytes = device(std::vector<char>(64));
  int *out = device(std::vector<int>(1));
  first<<<1, 64>>>(bytes, out, 5);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(bytes));
  HIP(hipFree(out));
}
