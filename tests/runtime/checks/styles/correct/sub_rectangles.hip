// Pitched images: borders are cleared and the inner part is copied as sub-rectangles; 3D copies move slices.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void blur(const unsigned char *in, size_t inPitch, unsigned char *out, size_t outPitch, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int sum = 0;
  for (int dy = 0; dy < 3; dy++)
    for (int dx = 0; dx < 3; dx++) sum += in[(y + dy) * inPitch + x + dx];
  out[y * outPitch + x] = (unsigned char)(sum / 9);
}

int main() {
  const int w = 50, h = 20;
  std::vector<unsigned char> host(w * h, 90), result(w * h);
  unsigned char *padded, *out;
  size_t paddedPitch, outPitch;
  if (hipMallocPitch((void **)&padded, &paddedPitch, w + 2, h + 2) || hipMallocPitch((void **)&out, &outPitch, w, h)) return 1;
  if (hipMemset2D(padded, paddedPitch, 0, w + 2, 1) || hipMemset2D(padded + (h + 1) * paddedPitch, paddedPitch, 0, w + 2, 1)) return 1;
  if (hipMemset2D(padded + paddedPitch, paddedPitch, 0, 1, h) || hipMemset2D(padded + paddedPitch + w + 1, paddedPitch, 0, 1, h)) return 1;
  if (hipMemcpy2D(padded + paddedPitch + 1, paddedPitch, host.data(), w, w, h, hipMemcpyHostToDevice)) return 1;
  blur<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(padded, paddedPitch, out, outPitch, w, h);
  hipMemcpy3DParms copy{};
  copy.srcPtr = make_hipPitchedPtr(out, outPitch, w, h);
  copy.dstPtr = make_hipPitchedPtr(result.data(), w, w, h);
  copy.extent = make_hipExtent(w, h, 1);
  copy.kind = hipMemcpyDeviceToHost;
  if (hipMemcpy3D(&copy) || hipFree(padded) || hipFree(out)) return 1;
  if (result[0] != 40 || result[w + 1] != 90 || result[w * h - 1] != 40) return 2;
  std::puts("right");
}
