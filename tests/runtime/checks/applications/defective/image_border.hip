// Blur of an image: the guard compares the row with the width, so the last rows are read past the end.
#include "../../program.h"
__global__ void blur(const unsigned char *in, unsigned char *out, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= width) return;
  int sum = 0;
  for (int dx = -1; dx <= 1; dx++) {
    int column = min(max(x + dx, 0), width - 1);
    sum += in[y * width + column];  // DEFECT out_of_bounds
  }
  out[y * width + x] = sum / 3;
}
int main() {
  const int width = 96, height = 64;
  unsigned char *in = device(std::vector<unsigned char>(width * height, 9)), *out;
  HIP(hipMalloc(&out, width * width));
  blur<<<dim3(3, 12), dim3(32, 8)>>>(in, out, width);
  host(out, width * height);
  HIP(hipFree(in));
  HIP(hipFree(out));
  return ended(true);
}
