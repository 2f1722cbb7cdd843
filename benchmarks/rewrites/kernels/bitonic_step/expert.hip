// rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}
// Four keys per work-item, all loads before the first store.
#include <hip/hip_runtime.h>

extern "C" __global__ __launch_bounds__(256) void bitonic_step(int* keys, int n, int distance, int size) {
  int first = blockIdx.x * 1024 + threadIdx.x;
  int a[4], b[4];
  bool valid[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int i = first + 256 * k, j = i ^ distance;
    valid[k] = i < n && j > i && j < n;
    a[k] = valid[k] ? keys[i] : 0;
    b[k] = valid[k] ? keys[j] : 0;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int i = first + 256 * k;
    if (valid[k] && a[k] != b[k] && (a[k] > b[k]) == ((i & size) == 0)) {
      keys[i] = b[k];
      keys[i ^ distance] = a[k];
    }
  }
}
