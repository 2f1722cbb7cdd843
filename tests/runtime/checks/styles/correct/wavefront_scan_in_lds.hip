// Scans of wavefronts in LDS without barriers (one wavefront executes in step, with a fence for the compiler), then one barrier.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__device__ void wavefront_fence() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

__global__ void scan(int *data) {
  __shared__ volatile int tile[256];
  __shared__ int totals[4];
  const int t = threadIdx.x, lane = t & 63;
  tile[t] = data[blockIdx.x * 256 + t];
  for (int step = 1; step < 64; step *= 2) {
    wavefront_fence();
    int other = lane >= step ? tile[t - step] : 0;
    wavefront_fence();
    tile[t] = tile[t] + other;
  }
  if (lane == 63) totals[t / 64] = tile[t];
  __syncthreads();
  int before = 0;
  for (int w = 0; w < t / 64; w++) before += totals[w];
  data[blockIdx.x * 256 + t] = before + tile[t];
}

int main() {
  std::vector<int> host(1024, 1);
  int *data;
  if (hipMalloc(&data, 4096) != hipSuccess || hipMemcpy(data, host.data(), 4096, hipMemcpyHostToDevice) != hipSuccess) return 1;
  scan<<<4, 256>>>(data);
  if (hipMemcpy(host.data(), data, 4096, hipMemcpyDeviceToHost) != hipSuccess || hipFree(data) != hipSuccess) return 1;
  for (int i = 0; i < 1024; i++)
    if (host[i] != i % 256 + 1) return 2;
  std::puts("right");
}
