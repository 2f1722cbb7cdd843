// Memory is freed and allocated again, in other sizes; host and managed memory are written by the host alone.
#include "../program.h"
__global__ void add(const int *a, const int *b, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
int main() {
  int *managed, *pinned;
  HIP(hipMallocManaged(&managed, 4096));
  HIP(hipHostMalloc(&pinned, 4096));
  bool right = true;
  for (int n = 100; n <= 1000; n += 100) {
    for (int i = 0; i < n; i++) managed[i] = i, pinned[i] = n;
    int *out;
    HIP(hipMalloc(&out, n * sizeof(int)));
    add<<<(n + 63) / 64, 64>>>(managed, pinned, out, n);
    right = right && host(out, n)[n - 1] == 2 * n - 1;
    HIP(hipFree(out));
  }
  HIP(hipFree(managed));
  HIP(hipHostFree(pinned));
  return ended(right);
}
