// Workgroups leave early by a vote (__syncthreads_or, __syncthreads_count); others go on to further barriers.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void iterate(int *values, int *rounds) {
  __shared__ int border;
  int value = values[blockIdx.x * blockDim.x + threadIdx.x], round = 0;
  while (__syncthreads_or(value > 1)) {
    if (threadIdx.x == 0) border = round;
    __syncthreads();
    if (value > 1) value = value % 2 ? value - 1 : value / 2;
    round = border + 1;
    __syncthreads();
  }
  if (__syncthreads_count(value == 1) != int(blockDim.x)) return;
  values[blockIdx.x * blockDim.x + threadIdx.x] = value;
  if (threadIdx.x == 0) rounds[blockIdx.x] = round;
}

int main() {
  constexpr int blocks = 4, threads = 128;
  std::vector<int> host(blocks * threads), rounds(blocks);
  for (int i = 0; i < blocks * threads; i++) host[i] = 1 + (i / threads) * (i % threads);
  int *values, *count;
  if (hipMalloc(&values, host.size() * 4) || hipMalloc(&count, blocks * 4)) return 1;
  if (hipMemcpy(values, host.data(), host.size() * 4, hipMemcpyHostToDevice)) return 1;
  iterate<<<blocks, threads>>>(values, count);
  if (hipMemcpy(host.data(), values, host.size() * 4, hipMemcpyDeviceToHost) || hipMemcpy(rounds.data(), count, blocks * 4, hipMemcpyDeviceToHost)) return 1;
  if (hipFree(values) || hipFree(count) || rounds[0] != 0 || rounds[3] < 8) return 2;
  for (int value : host)
    if (value != 1) return 3;
  std::puts("right");
}
