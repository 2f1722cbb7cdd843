// Heat equation in one cooperative kernel: buffers are swapped after each grid.sync().
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <cstdio>
#include <utility>
#include <vector>
namespace cg = cooperative_groups;

__global__ void heat(float *now, float *next, int n, int steps) {
  auto grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) {
      float left = i ? now[i - 1] : 0.f, right = i + 1 < n ? now[i + 1] : 0.f;
      next[i] = now[i] + 0.25f * (left - 2 * now[i] + right);
    }
    grid.sync();
    float *swap = now;
    now = next;
    next = swap;
  }
}

int main() {
  int n = 600, steps = 4;
  std::vector<float> host(n), other(n);
  for (int i = 0; i < n; i++) host[i] = float(i % 16);
  float *a, *b;
  if (hipMalloc(&a, n * 4) || hipMalloc(&b, n * 4) || hipMemcpy(a, host.data(), n * 4, hipMemcpyHostToDevice)) return 1;
  void *arguments[] = {&a, &b, &n, &steps};
  if (hipLaunchCooperativeKernel(reinterpret_cast<const void *>(&heat), dim3(3), dim3(128), arguments, 0u, nullptr)) return 1;
  for (int s = 0; s < steps; s++) {
    for (int i = 0; i < n; i++) other[i] = host[i] + 0.25f * ((i ? host[i - 1] : 0) - 2 * host[i] + (i + 1 < n ? host[i + 1] : 0));
    std::swap(host, other);
  }
  if (hipMemcpy(other.data(), a, n * 4, hipMemcpyDeviceToHost) || hipFree(a) || hipFree(b)) return 1;
  for (int i = 0; i < n; i++)
    if (other[i] - host[i] > 1e-4f || host[i] - other[i] > 1e-4f) return 2;
  std::puts("right");
}
