// Bitonic sort: stages in LDS for small distances, one launch per stage for large ones.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK_HIP(cmd)                                                            \
  do {                                                                            \
    const hipError_t error = (cmd);                                               \
    if (error != hipSuccess) {                                                    \
      fprintf(stderr, "error: '%s'(%d) at %s:%d\n", hipGetErrorString(error), (int)error, __FILE__, __LINE__); \
      exit(EXIT_FAILURE);                                                         \
    }                                                                             \
  } while (0)

constexpr unsigned BLOCK = 256;

__device__ void exchange(float& a, float& b, bool ascending) {
  if ((a > b) == ascending) {
    const float t = a;
    a = b;
    b = t;
  }
}

__global__ void far_stage(float* data, unsigned distance, unsigned size) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned i = 2 * t - (t & (distance - 1));
  exchange(data[i], data[i + distance], (i & size) == 0);
}

__global__ void near_stages(float* data, unsigned first_size, unsigned last_size) {
  __shared__ float tile[2 * BLOCK];
  const unsigned base = blockIdx.x * 2 * BLOCK, t = threadIdx.x;
  tile[t] = data[base + t];
  tile[t + BLOCK] = data[base + t + BLOCK];
  for (unsigned size = first_size; size <= last_size; size *= 2)
    for (unsigned distance = min(size / 2, BLOCK); distance > 0; distance /= 2) {
      __syncthreads();
      const unsigned i = 2 * t - (t & (distance - 1));
      exchange(tile[i], tile[i + distance], ((base + i) & size) == 0);
    }
  __syncthreads();
  data[base + t] = tile[t];
  data[base + t + BLOCK] = tile[t + BLOCK];
}

int main(int argc, char** argv) {
  const unsigned n = argc > 1 ? strtoul(argv[1], nullptr, 10) : 16384;
  if (n < 2 * BLOCK || (n & (n - 1)) != 0) {
    fprintf(stderr, "usage: %s [power of two from %u]\n", argv[0], 2 * BLOCK);
    return 2;
  }
  std::vector<float> data(n);
  std::mt19937 random(2024);
  for (auto& x : data) x = float(int(random()) >> 8) / 1024;
  std::vector<float> expected = data;
  std::sort(expected.begin(), expected.end());
  float* device;
  CHECK_HIP(hipMalloc(&device, n * sizeof(float)));
  CHECK_HIP(hipMemcpy(device, data.data(), n * sizeof(float), hipMemcpyHostToDevice));
  near_stages<<<n / (2 * BLOCK), BLOCK>>>(device, 2, 2 * BLOCK);
  for (unsigned size = 4 * BLOCK; size <= n; size *= 2) {
    for (unsigned distance = size / 2; distance > BLOCK; distance /= 2) far_stage<<<n / (2 * BLOCK), BLOCK>>>(device, distance, size);
    near_stages<<<n / (2 * BLOCK), BLOCK>>>(device, size, size);
  }
  CHECK_HIP(hipGetLastError());
  CHECK_HIP(hipMemcpy(data.data(), device, n * sizeof(float), hipMemcpyDeviceToHost));
  CHECK_HIP(hipFree(device));
  const bool same = data == expected;
  printf("bitonic sort of %u values: %s, from %.3f to %.3f\n", n, same ? "sorted" : "NOT sorted", data.front(), data.back());
  return same ? 0 : 1;
}
