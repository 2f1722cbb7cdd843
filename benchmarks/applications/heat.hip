// Heat equation on a plate: two buffers that change roles after each time step, residual by a reduction.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

struct DeviceFree {
  void operator()(float* p) const { (void)hipFree(p); }
};
using DevicePointer = std::unique_ptr<float, DeviceFree>;

static bool failed(hipError_t status, const char* what) {
  if (status != hipSuccess) fprintf(stderr, "%s failed: %s\n", what, hipGetErrorString(status));
  return status != hipSuccess;
}

static DevicePointer device_floats(size_t count) {
  void* memory = nullptr;
  return DevicePointer(failed(hipMalloc(&memory, count * sizeof(float)), "hipMalloc") ? nullptr : static_cast<float*>(memory));
}

__global__ void diffuse(const float* old, float* now, int width, int height, float rate, float* largest) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int i = y * width + x;
  if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
    now[i] = old[i];  // fixed temperature at the edge
    return;
  }
  const float change = rate * (old[i - 1] + old[i + 1] + old[i - width] + old[i + width] - 4 * old[i]);
  now[i] = old[i] + change;
  atomicMax(reinterpret_cast<unsigned*>(largest), __float_as_uint(fabsf(change)));
}

int main() {
  const int width = 96, height = 64, steps = 40;
  const float rate = 0.2f;
  std::vector<float> plate(width * height, 20.0f);
  for (int x = 0; x < width; x++) plate[x] = 100.0f;
  const size_t bytes = plate.size() * sizeof(float);
  DevicePointer a = device_floats(plate.size()), b = device_floats(plate.size()), residual = device_floats(1);
  if (!a || !b || !residual) return 1;
  if (failed(hipMemcpy(a.get(), plate.data(), bytes, hipMemcpyHostToDevice), "copy")) return 1;
  for (int k = 0; k < steps; k++) {
    if (failed(hipMemsetAsync(residual.get(), 0, sizeof(float), nullptr), "memset")) return 1;
    diffuse<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(a.get(), b.get(), width, height, rate, residual.get());
    if (failed(hipPeekAtLastError(), "launch")) return 1;
    a.swap(b);
  }
  std::vector<float> result(plate.size());
  float largest = -1;
  if (failed(hipMemcpy(result.data(), a.get(), bytes, hipMemcpyDeviceToHost), "copy back")) return 1;
  if (failed(hipMemcpy(&largest, residual.get(), sizeof largest, hipMemcpyDeviceToHost), "copy of the residual")) return 1;

  std::vector<float> old = plate, now = plate;
  float expected_largest = 0;
  for (int k = 0; k < steps; k++) {
    expected_largest = 0;
    for (int y = 1; y < height - 1; y++)
      for (int x = 1; x < width - 1; x++) {
        const int i = y * width + x;
        const float change = rate * (old[i - 1] + old[i + 1] + old[i - width] + old[i + width] - 4 * old[i]);
        now[i] = old[i] + change;
        expected_largest = std::fmax(expected_largest, std::fabs(change));
      }
    old.swap(now);
    for (int x = 0; x < width; x++) now[x] = 100.0f;
  }
  float difference = std::fabs(largest - expected_largest);
  for (size_t i = 0; i < result.size(); i++) difference = std::fmax(difference, std::fabs(result[i] - old[i]));
  // Fused multiply-adds may differ by the compiler: 40 steps of half a unit in the last place of 100.
  const bool right = difference < 40 * 4e-6f;
  printf("heat: %d steps, residual %.3f, %s\n", steps, largest, right ? "PASSED" : "FAILED");
  return right ? 0 : 1;
}
