// Connected components by label propagation: relaxed atomic loads race with atomicMin on purpose, and a flag in mapped memory ends the loop.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void propagate(const int2 *edges, int count, int *labels, int *changed) {
  for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < count; e += gridDim.x * blockDim.x) {
    const int2 edge = edges[e];
    int a = __hip_atomic_load(&labels[edge.x], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    int b = __hip_atomic_load(&labels[edge.y], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    if (a == b) continue;
    atomicMin(&labels[edge.x], b);
    atomicMin(&labels[edge.y], a);
    *changed = 1;
  }
}

int main() {
  constexpr int n = 500;
  std::vector<int2> edges;
  for (int i = 0; i + 5 < n; i++) edges.push_back(make_int2(i + 5, i));
  std::vector<int> labels(n);
  for (int i = 0; i < n; i++) labels[i] = i;
  int2 *deviceEdges;
  int *deviceLabels, *changed;
  if (hipMalloc(&deviceEdges, edges.size() * sizeof(int2)) || hipMalloc(&deviceLabels, n * 4)) return 1;
  if (hipHostMalloc((void **)&changed, 4, hipHostMallocMapped)) return 1;
  if (hipMemcpy(deviceEdges, edges.data(), edges.size() * sizeof(int2), hipMemcpyHostToDevice)) return 1;
  if (hipMemcpy(deviceLabels, labels.data(), n * 4, hipMemcpyHostToDevice)) return 1;
  do {
    *changed = 0;
    propagate<<<3, 128>>>(deviceEdges, int(edges.size()), deviceLabels, changed);
    if (hipDeviceSynchronize()) return 1;
  } while (*changed);
  if (hipMemcpy(labels.data(), deviceLabels, n * 4, hipMemcpyDeviceToHost)) return 1;
  if (hipFree(deviceEdges) || hipFree(deviceLabels) || hipHostFree(changed)) return 1;
  for (int i = 0; i < n; i++)
    if (labels[i] != i % 5) return 2;
  std::puts("right");
}
