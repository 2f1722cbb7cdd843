// Kernels whose dispatches are captured and replayed: module state, pointers in memory, LDS, a kernel that hangs.
#include "check.h"

struct Node {
  Node* next;
  int value;
};
__constant__ float factor;
static __device__ unsigned calls;  // not visible by name outside the code object

__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) calls++;
  if (i < n) y[i] = factor * x[i] + calls;
}
__global__ void walk(const Node* first, int* sum) {
  int total = 0;
  for (const Node* node = first; node; node = node->next) total += node->value;
  *sum = total;
}
__global__ void reverse(int* x) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

static void scale_three_times() {
  const int n = 5000;
  const float two = 2;
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(factor), &two, sizeof two));
  std::vector<float> values(n);
  for (int i = 0; i < n; i++) values[i] = i;
  float *x = to_device(values), *y = device_array<float>(n);
  for (int round = 0; round < 3; round++) scale<<<1, 64>>>(x, y, 64);  // one wave: all of it sees the increment
  EQUAL(to_host(y, 64)[63], 2 * 63 + 3);
}
static void walk_a_list() {
  Node *second = device_array<Node>(100), *first = to_device<Node>({{second + 50, 5}});
  const Node last = {nullptr, 37};
  HIP(hipMemcpy(second + 50, &last, sizeof last, hipMemcpyHostToDevice));
  int* sum = device_array<int>(1);
  walk<<<1, 1>>>(first, sum);
  EQUAL(to_host(sum, 1)[0], 42);
}
static void reverse_a_tile() {
  std::vector<int> values(256);
  for (int i = 0; i < 256; i++) values[i] = i * i;
  int* x = to_device(values);
  reverse<<<1, 256, 256 * sizeof(int)>>>(x);
  EQUAL(to_host(x, 256)[255], 0);
}

int main(int argc, char** argv) {
  return run_checks(
      argc, argv, {{"scale", scale_three_times}, {"walk", walk_a_list}, {"reverse", reverse_a_tile}});
}
