// Odd-even transposition sort in global memory within one workgroup: barriers order global accesses too.
#include "../../program.h"
__global__ void sort(int *values, int n) {
  for (int step = 0; step < n; step++) {
    int i = 2 * threadIdx.x + (step & 1);
    if (i + 1 < n && values[i] > values[i + 1]) {
      int swapped = values[i];
      values[i] = values[i + 1];
      values[i + 1] = swapped;
    }
    __syncthreads();
  }
}
int main() {
  const int n = 200;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = (i * 37) % n;
  int *sorted = device(values);
  sort<<<1, 128>>>(sorted, n);
  bool right = true;
  auto result = host(sorted, n);
  for (int i = 0; i < n; i++) right = right && result[i] == i;
  HIP(hipFree(sorted));
  return ended(right);
}
