// PageRank by power iteration over incoming edges (CSR); the residual is summed in double precision with atomics.
#include <hip/hip_runtime.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <random>
#include <vector>

namespace {
struct HipError {
  hipError_t code;
  int line;
};
void check(hipError_t code, int line) {
  if (code != hipSuccess) throw HipError{code, line};
}
}  // namespace
#define CHECK(call) check(call, __LINE__)

__global__ void contribution(const float* rank, const int* out_degree, float* share, double* lost, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  share[v] = out_degree[v] ? rank[v] / out_degree[v] : 0;
  if (out_degree[v] == 0) unsafeAtomicAdd(lost, double(rank[v]));
}

__global__ void gather(const int* first, const int* source, const float* share, const double* lost, float* rank, double* residual,
                       int n, float damping) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  float sum = float(*lost) / n;
  for (int e = first[v]; e < first[v + 1]; e++) sum += share[source[e]];
  const float now = (1 - damping) / n + damping * sum;
  atomicAdd(residual, fabs(double(now) - rank[v]));
  rank[v] = now;
}

int run() {
  const int n = 1500;
  const float damping = 0.85f;
  std::mt19937 random(99);
  std::vector<int> first(n + 1), source, degree(n);
  for (int v = 0; v < n; v++) {
    first[v] = int(source.size());
    for (int k = random() % 8; k >= 0; k--) {
      const int u = int(random() % (random() % 3 ? n : 40));
      source.push_back(u);
      degree[u]++;
    }
  }
  first[n] = int(source.size());
  int *d_first, *d_source, *d_degree;
  float *rank, *share;
  double* sums;
  CHECK(hipMalloc(&d_first, first.size() * sizeof(int)));
  CHECK(hipMalloc(&d_source, source.size() * sizeof(int)));
  CHECK(hipMalloc(&d_degree, n * sizeof(int)));
  CHECK(hipMalloc(&rank, n * sizeof(float)));
  CHECK(hipMalloc(&share, n * sizeof(float)));
  CHECK(hipMalloc(&sums, 2 * sizeof(double)));
  CHECK(hipMemcpy(d_first, first.data(), first.size() * sizeof(int), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(d_source, source.data(), source.size() * sizeof(int), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(d_degree, degree.data(), n * sizeof(int), hipMemcpyHostToDevice));
  std::vector<float> result(n, 1.0f / n);
  CHECK(hipMemcpy(rank, result.data(), n * sizeof(float), hipMemcpyHostToDevice));
  const int blocks = (n + 191) / 192;
  double residual = 1;
  int rounds = 0;
  for (; residual > 1e-4 && rounds < 100; rounds++) {
    CHECK(hipMemset(sums, 0, 2 * sizeof(double)));
    contribution<<<blocks, 192>>>(rank, d_degree, share, sums, n);
    gather<<<blocks, 192>>>(d_first, d_source, share, sums, rank, sums + 1, n, damping);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(&residual, sums + 1, sizeof(double), hipMemcpyDeviceToHost));
  }
  CHECK(hipMemcpy(result.data(), rank, n * sizeof(float), hipMemcpyDeviceToHost));

  std::vector<double> expected(n, 1.0 / n), next(n);
  for (int k = 0; k < rounds; k++) {
    double lost = 0;
    for (int v = 0; v < n; v++) lost += degree[v] ? 0 : expected[v];
    for (int v = 0; v < n; v++) {
      double sum = lost / n;
      for (int e = first[v]; e < first[v + 1]; e++) sum += expected[source[e]] / degree[source[e]];
      next[v] = (1 - damping) / n + damping * sum;
    }
    expected.swap(next);
  }
  double largest = 0, total = 0;
  for (int v = 0; v < n; v++) {
    largest = std::fmax(largest, std::fabs(result[v] - expected[v]) * n);
    total += result[v];
  }
  const bool right = largest < 1e-4 && std::fabs(total - 1) < 1e-4;
  std::cout << "pagerank: " << rounds << " rounds, total " << std::fixed << std::setprecision(3) << total << ", "
            << (right ? "correct" : "wrong") << "\n";
  for (void* p : {(void*)d_first, (void*)d_source, (void*)d_degree, (void*)rank, (void*)share, (void*)sums}) CHECK(hipFree(p));
  return right ? 0 : 1;
}

int main() {
  try {
    return run();
  } catch (const HipError& error) {
    std::cerr << "line " << error.line << ": " << hipGetErrorString(error.code) << std::endl;
    return 1;
  }
}
