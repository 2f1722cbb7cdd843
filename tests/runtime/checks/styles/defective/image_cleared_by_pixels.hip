// A pitched image is cleared with a width in pixels instead of bytes; brightness is then accumulated.
#include <hip/hip_runtime.h>
#include <cstdio>

struct Image {
  float *pixels = nullptr;
  size_t pitch = 0;
  int width, height;
  Image(int w, int h) : width(w), height(h) { (void)hipMallocPitch(reinterpret_cast<void **>(&pixels), &pitch, w * sizeof(float), h); }
  ~Image() { (void)hipFree(pixels); }
  Image(const Image &) = delete;
};

__global__ void accumulate(float *pixels, size_t pitch, int width, int height, float amount) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float *row = reinterpret_cast<float *>(reinterpret_cast<char *>(pixels) + y * pitch);
  row[x] += amount;  // DEFECT memory_uninitialised
}

int main() {
  Image image(100, 30);
  if (hipMemset2D(image.pixels, image.pitch, 0, image.width, image.height) != hipSuccess) return 1;
  dim3 block(32, 8), grid((image.width + 31) / 32, (image.height + 7) / 8);
  for (int i = 0; i < 3; i++) accumulate<<<grid, block>>>(image.pixels, image.pitch, image.width, image.height, 0.5f);
  float corner;
  if (hipMemcpy(&corner, image.pixels, sizeof corner, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%g\n", corner);
}
