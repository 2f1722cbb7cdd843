#include <hip/hip_runtime.h>

// Half of the work-items find that their partner has the smaller index, and stop.
extern "C" __global__ void bitonic_step(int* keys, int n, int distance, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = i ^ distance;
  if (i >= n || j <= i || j >= n) return;
  int a = keys[i], b = keys[j];
  bool rising = (i & size) == 0;
  if (a != b && (a > b) == rising) {
    keys[i] = b;
    keys[j] = a;
  }
}
