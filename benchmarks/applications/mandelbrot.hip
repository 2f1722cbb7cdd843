// Mandelbrot set in fixed point, so that host and device agree on every pixel; printed as text.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SAFE_CALL(f)                                      \
  {                                                       \
    hipError_t err = f;                                   \
    if (err != hipSuccess) {                              \
      printf("%s: %s\n", #f, hipGetErrorString(err));     \
      return 1;                                           \
    }                                                     \
  }

__host__ __device__ inline int iterations(int64_t cx, int64_t cy, int limit) {  // 24 fractional bits
  int64_t x = 0, y = 0;
  for (int k = 0; k < limit; k++) {
    const int64_t xx = x * x >> 24, yy = y * y >> 24;
    if (xx + yy > int64_t(4) << 24) return k;
    y = (x * y >> 23) + cy;
    x = xx - yy + cx;
  }
  return limit;
}

__global__ void mandelbrot(uint16_t* image, int width, int height, int limit) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int64_t one = 1 << 24;
  image[y * width + x] = iterations(x * 3 * one / width - 2 * one, y * 2 * one / height - one, limit);
}

int main() {
  const int width = 180, height = 96, limit = 60;
  uint16_t* device;
  SAFE_CALL(hipMalloc(&device, width * height * sizeof(uint16_t)));
  const dim3 block(16, 16);
  mandelbrot<<<dim3((width + 15) / 16, height / 16), block>>>(device, width, height, limit);
  SAFE_CALL(hipGetLastError());
  std::vector<uint16_t> image(width * height);
  SAFE_CALL(hipMemcpy(image.data(), device, image.size() * sizeof(uint16_t), hipMemcpyDeviceToHost));
  SAFE_CALL(hipFree(device));
  int wrong = 0;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      const int64_t one = 1 << 24;
      wrong += image[y * width + x] != iterations(x * 3 * one / width - 2 * one, y * 2 * one / height - one, limit);
    }
  for (int y = 0; y < height; y += 8) {
    for (int x = 0; x < width; x += 4) putchar(" .:-=+*#@"[image[y * width + x] * 8 / limit]);
    putchar('\n');
  }
  printf("%d pixels differ from the host's\n", wrong);
  return wrong != 0;
}
