// Separable convolution with the filter in __constant__ memory, rows then columns.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#define HIP_ERRCHK(result)                                                                                      \
  if (hipError_t res_ = (result); res_ != hipSuccess) {                                                         \
    printf("%s in %s at line %d\n", hipGetErrorString(res_), __FILE__, __LINE__);                               \
    exit(EXIT_FAILURE);                                                                                         \
  }

constexpr int RADIUS = 4, LENGTH = 2 * RADIUS + 1;
__constant__ int filter[LENGTH];
__constant__ int2 image_size;

template <bool Rows>
__global__ void convolve(const int* in, int* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= image_size.x || y >= image_size.y) return;
  int sum = 0;
#pragma unroll
  for (int k = -RADIUS; k <= RADIUS; k++) {
    const int u = Rows ? x + k : x, v = Rows ? y : y + k;
    if (u >= 0 && u < image_size.x && v >= 0 && v < image_size.y) sum += filter[k + RADIUS] * in[v * image_size.x + u];
  }
  out[y * image_size.x + x] = sum;
}

int main() {
  const int width = 200, height = 100, weights[LENGTH] = {1, 8, 28, 56, 70, 56, 28, 8, 1};
  const int2 size = {width, height};
  HIP_ERRCHK(hipMemcpyToSymbol(HIP_SYMBOL(filter), weights, 4 * sizeof(int)));
  HIP_ERRCHK(hipMemcpyToSymbol(HIP_SYMBOL(filter), weights + 4, 5 * sizeof(int), 4 * sizeof(int), hipMemcpyHostToDevice));
  HIP_ERRCHK(hipMemcpyToSymbol(image_size, &size, sizeof size));
  std::vector<int> in(width * height), out(width * height);
  for (size_t i = 0; i < in.size(); i++) in[i] = int(unsigned(i) * 2654435761u >> 24);
  int *a, *b;
  HIP_ERRCHK(hipMalloc(&a, in.size() * sizeof(int)));
  HIP_ERRCHK(hipMalloc(&b, in.size() * sizeof(int)));
  HIP_ERRCHK(hipMemcpy(a, in.data(), in.size() * sizeof(int), hipMemcpyHostToDevice));
  const dim3 block(64, 4), grid((width + 63) / 64, (height + 3) / 4);
  convolve<true><<<grid, block>>>(a, b);
  convolve<false><<<grid, block>>>(b, a);
  HIP_ERRCHK(hipGetLastError());
  HIP_ERRCHK(hipMemcpy(out.data(), a, out.size() * sizeof(int), hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      int sum = 0;
      for (int j = -RADIUS; j <= RADIUS; j++)
        for (int i = -RADIUS; i <= RADIUS; i++) {
          const int u = x + i, v = y + j;
          if (u >= 0 && v >= 0 && u < width && v < height) sum += weights[i + RADIUS] * weights[j + RADIUS] * in[v * width + u];
        }
      wrong += sum != out[y * width + x];
    }
  int back[LENGTH];
  HIP_ERRCHK(hipMemcpyFromSymbol(back, HIP_SYMBOL(filter), sizeof back));
  printf("convolution: %d wrong, the filter's sum is %d\n", wrong, std::accumulate(back, back + LENGTH, 0));
  HIP_ERRCHK(hipFree(a));
  HIP_ERRCHK(hipFree(b));
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
