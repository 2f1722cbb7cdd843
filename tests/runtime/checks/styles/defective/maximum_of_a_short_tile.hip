// Maximum over a tile of 256 values in LDS of which the input fills 200.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

template <class T, int Size>
struct SharedTile {
  T values[Size];
  __device__ T maximum() {
    for (int step = Size / 2; step > 0; step /= 2) {
      if (threadIdx.x < step && values[threadIdx.x] < values[threadIdx.x + step])  // DEFECT lds_uninitialised
        values[threadIdx.x] = values[threadIdx.x + step];
      __syncthreads();
    }
    return values[0];
  }
};

__global__ void find_maximum(const float *in, float *out, int n) {
  __shared__ SharedTile<float, 256> tile;
  if (threadIdx.x < n) tile.values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float best = tile.maximum();
  if (threadIdx.x == 0) *out = best;
}

int main() {
  std::vector<float> host(200);
  for (int i = 0; i < 200; i++) host[i] = float((i * 37) % 200);
  float *in, *out, best;
  if (hipMalloc(&in, 800) != hipSuccess || hipMalloc(&out, 4) != hipSuccess) return 1;
  if (hipMemcpy(in, host.data(), 800, hipMemcpyHostToDevice) != hipSuccess) return 1;
  find_maximum<<<1, 256>>>(in, out, 200);
  if (hipMemcpy(&best, out, 4, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%g\n", best);
  return hipFree(in) != hipSuccess || hipFree(out) != hipSuccess;
}
