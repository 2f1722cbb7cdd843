// Shortest paths by Bellman-Ford: every edge is relaxed with atomicMin until no distance changes.
#include <hip/hip_runtime.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#define HIP_CHECK(command)                                          \
  {                                                                 \
    hipError_t stat = (command);                                    \
    if (stat != hipSuccess) {                                       \
      fprintf(stderr, "HIP error: %s in file %s:%d\n", hipGetErrorString(stat), __FILE__, __LINE__); \
      exit(-1);                                                     \
    }                                                               \
  }

struct Edge {
  int from, to, length;
};

__global__ void relax(const Edge* edges, int count, const int* before, int* distance, int* changed) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= count) return;
  const Edge edge = edges[e];
  const int start = before[edge.from];
  if (start == INT_MAX) return;
  if (atomicMin(&distance[edge.to], start + edge.length) > start + edge.length) atomicOr(changed, 1);
}

int main() {
  const int vertices = 2000, count = 8000;
  std::mt19937 random(3);
  std::vector<Edge> edges;
  for (int i = 0; i < count; i++) edges.push_back({int(random() % vertices), int(random() % vertices), 1 + int(random() % 100)});
  std::vector<int> distance(vertices, INT_MAX);
  distance[0] = 0;
  Edge* d_edges;
  int *d_before, *d_distance, *d_changed;
  HIP_CHECK(hipMalloc((void**)&d_edges, count * sizeof(Edge)));
  HIP_CHECK(hipMalloc((void**)&d_before, vertices * sizeof(int)));
  HIP_CHECK(hipMalloc((void**)&d_distance, vertices * sizeof(int)));
  HIP_CHECK(hipMalloc((void**)&d_changed, sizeof(int)));
  HIP_CHECK(hipMemcpy(d_edges, edges.data(), count * sizeof(Edge), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(d_distance, distance.data(), vertices * sizeof(int), hipMemcpyHostToDevice));
  int rounds = 0, changed = 1;
  while (changed) {
    HIP_CHECK(hipMemcpy(d_before, d_distance, vertices * sizeof(int), hipMemcpyDeviceToDevice));
    HIP_CHECK(hipMemset(d_changed, 0, sizeof(int)));
    relax<<<(count + 255) / 256, 256>>>(d_edges, count, d_before, d_distance, d_changed);
    HIP_CHECK(hipGetLastError());
    HIP_CHECK(hipMemcpy(&changed, d_changed, sizeof(int), hipMemcpyDeviceToHost));
    rounds++;
  }
  HIP_CHECK(hipMemcpy(distance.data(), d_distance, vertices * sizeof(int), hipMemcpyDeviceToHost));

  std::vector<std::vector<std::pair<int, int>>> out(vertices);
  for (const Edge& e : edges) out[e.from].push_back({e.to, e.length});
  std::vector<int> expected(vertices, INT_MAX);
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> heap;
  heap.push({expected[0] = 0, 0});
  while (!heap.empty()) {
    const auto [d, v] = heap.top();
    heap.pop();
    if (d > expected[v]) continue;
    for (const auto& [w, length] : out[v])
      if (d + length < expected[w]) heap.push({expected[w] = d + length, w});
  }
  long long sum = 0;
  for (int d : distance) sum += d == INT_MAX ? 0 : d;
  printf("sssp: %d rounds, sum of distances %lld, %s\n", rounds, sum, distance == expected ? "PASSED" : "FAILED");
  HIP_CHECK(hipFree(d_edges));
  HIP_CHECK(hipFree(d_before));
  HIP_CHECK(hipFree(d_distance));
  HIP_CHECK(hipFree(d_changed));
  return distance == expected ? 0 : 1;
}
