// Connected components: union-find with atomicCAS and path halving in one kernel, then full compression.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#define CK(x)                                                                  \
  do {                                                                         \
    if (auto r = (x)) {                                                        \
      fprintf(stderr, "%s -> %s (line %d)\n", #x, hipGetErrorString(r), __LINE__); \
      abort();                                                                 \
    }                                                                          \
  } while (0)

__device__ int load(int* p) { return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }

__device__ int find(int* parent, int v) {
  int p = load(&parent[v]);
  while (p != v) {
    const int g = load(&parent[p]);
    if (g != p) atomicCAS(&parent[v], p, g);
    v = p;
    p = load(&parent[v]);
  }
  return v;
}

__global__ void unite(const int2* edges, int count, int* parent) {
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= count) return;
  int a = edges[e].x, b = edges[e].y;
  for (;;) {
    a = find(parent, a);
    b = find(parent, b);
    if (a == b) return;
    if (a < b) {
      const int t = a;
      a = b;
      b = t;
    }
    if (atomicCAS(&parent[a], a, b) == a) return;  // the larger root points to the smaller
  }
}

__global__ void compress(int* parent, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  const int root = find(parent, v);
  __hip_atomic_store(&parent[v], root, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

int main() {
  const int n = 6000, count = 5000;
  std::mt19937 random(17);
  std::vector<int2> edges(count);
  for (auto& e : edges) e = make_int2(random() % n, random() % n);
  std::vector<int> parent(n), label(n);
  std::iota(parent.begin(), parent.end(), 0);
  int2* d_edges;
  int* d_parent;
  CK(hipMalloc(&d_edges, count * sizeof(int2)));
  CK(hipMalloc(&d_parent, n * sizeof(int)));
  CK(hipMemcpy(d_edges, edges.data(), count * sizeof(int2), hipMemcpyHostToDevice));
  CK(hipMemcpy(d_parent, parent.data(), n * sizeof(int), hipMemcpyHostToDevice));
  unite<<<(count + 63) / 64, 64>>>(d_edges, count, d_parent);
  compress<<<(n + 63) / 64, 64>>>(d_parent, n);
  CK(hipGetLastError());
  CK(hipMemcpy(label.data(), d_parent, n * sizeof(int), hipMemcpyDeviceToHost));
  CK(hipFree(d_edges));
  CK(hipFree(d_parent));
  auto root = [&](int v) {
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
  };
  for (auto& e : edges) {
    const int a = root(e.x), b = root(e.y);
    if (a != b) parent[a > b ? a : b] = a > b ? b : a;
  }
  int wrong = 0;
  for (int v = 0; v < n; v++) wrong += label[v] != root(v);  // the label of a component is its smallest vertex
  std::set<int> components(label.begin(), label.end());
  printf("connected components: %zu components, %d wrong\n", components.size(), wrong);
  return wrong ? 1 : 0;
}
