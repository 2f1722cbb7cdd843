// Textures do not exist on this hardware: the program asks, is refused, clears the error and uses its other path.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void lookup(const float *table, const float *x, float *y, int size) {
  int i = threadIdx.x;
  float at = x[i] * (size - 1);
  int left = int(at);
  int right = left + 1 < size ? left + 1 : left;
  float part = at - left;
  y[i] = table[left] * (1 - part) + table[right] * part;
}

int main() {
  std::vector<float> table(17), x(64), y(64);
  for (int i = 0; i < 17; i++) table[i] = float(i * i);
  for (int i = 0; i < 64; i++) x[i] = i / 64.0f;
  float *dt, *dx, *dy;
  if (hipMalloc(&dt, 68) || hipMalloc(&dx, 256) || hipMalloc(&dy, 256)) return 1;
  if (hipMemcpy(dt, table.data(), 68, hipMemcpyHostToDevice) || hipMemcpy(dx, x.data(), 256, hipMemcpyHostToDevice)) return 1;
  int hasImages = -1;
  hipDeviceProp_t properties;
  if (hipGetDeviceProperties(&properties, 0)) return 1;
  if (hipDeviceGetAttribute(&hasImages, hipDeviceAttributeImageSupport, 0) != hipSuccess) hasImages = 0;
  hipTextureObject_t texture = 0;
  if (hasImages) {
    hipResourceDesc resource;
    hipTextureDesc description;
    std::memset(&resource, 0, sizeof resource);
    std::memset(&description, 0, sizeof description);
    resource.resType = hipResourceTypeLinear;
    resource.res.linear.devPtr = dt;
    resource.res.linear.desc = hipCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = 68;
    hipError_t status = hipCreateTextureObject(&texture, &resource, &description, nullptr);
    if (status != hipSuccess) (void)hipGetLastError();
  }
  lookup<<<1, 64>>>(dt, dx, dy, 17);
  if (hipGetLastError() != hipSuccess || hipMemcpy(y.data(), dy, 256, hipMemcpyDeviceToHost)) return 2;
  if (texture && hipDestroyTextureObject(texture)) return 3;
  if (hipFree(dt) || hipFree(dx) || hipFree(dy) || y[32] != 64) return 4;
  std::puts("right");
}
