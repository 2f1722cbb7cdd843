// k-means (Lloyd) of points in the plane: assignment, sums with LDS atomics, new centres, until no point moves.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(x)                                                              \
  if ((x) != hipSuccess) {                                                    \
    fprintf(stderr, "line %d: %s\n", __LINE__, hipGetErrorString(hipPeekAtLastError())); \
    return EXIT_FAILURE;                                                      \
  }

constexpr int K = 8;
struct Sums {
  long long x[K], y[K];
  int count[K], moved;
};

// Integer coordinates keep sums and comparisons exact.
__host__ __device__ inline int nearest(int2 p, const int2* centres) {
  int best = 0;
  long long least = -1;
  for (int k = 0; k < K; k++) {
    const long long dx = p.x - centres[k].x, dy = p.y - centres[k].y, distance = dx * dx + dy * dy;
    if (least < 0 || distance < least) {
      least = distance;
      best = k;
    }
  }
  return best;
}

__global__ void assign(const int2* points, int n, const int2* centres, int* cluster, Sums* sums) {
  __shared__ int2 local_centres[K];
  __shared__ int x[K], y[K], count[K];
  if (threadIdx.x < K) {
    local_centres[threadIdx.x] = centres[threadIdx.x];
    x[threadIdx.x] = y[threadIdx.x] = count[threadIdx.x] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int2 p = points[i];
    const int k = nearest(p, local_centres);
    if (cluster[i] != k) {
      cluster[i] = k;
      atomicAdd(&sums->moved, 1);
    }
    atomicAdd(&x[k], p.x);
    atomicAdd(&y[k], p.y);
    atomicAdd(&count[k], 1);
  }
  __syncthreads();
  if (threadIdx.x < K) {
    atomicAdd((unsigned long long*)&sums->x[threadIdx.x], (unsigned long long)(long long)x[threadIdx.x]);
    atomicAdd((unsigned long long*)&sums->y[threadIdx.x], (unsigned long long)(long long)y[threadIdx.x]);
    atomicAdd(&sums->count[threadIdx.x], count[threadIdx.x]);
  }
}

__global__ void update(int2* centres, const Sums* sums) {
  const int k = threadIdx.x;
  if (sums->count[k]) centres[k] = make_int2(int(sums->x[k] / sums->count[k]), int(sums->y[k] / sums->count[k]));
}

int main() {
  const int n = 4000;
  std::mt19937 random(8);
  std::vector<int2> points(n), centres(K);
  for (int i = 0; i < n; i++) {
    const int group = i % K;
    points[i] = make_int2(4000 * (group % 3) + int(random() % 3000), 4000 * (group / 3) + int(random() % 3000));
  }
  for (int k = 0; k < K; k++) centres[k] = points[k];
  std::vector<int> cluster(n, -1), expected(n, -1);
  std::vector<int2> host = centres, result(K);
  for (int moved = 1; moved;) {
    Sums s = {};
    for (int i = 0; i < n; i++) {
      const int k = nearest(points[i], host.data());
      s.moved += expected[i] != k;
      expected[i] = k;
      s.x[k] += points[i].x;
      s.y[k] += points[i].y;
      s.count[k]++;
    }
    for (int k = 0; k < K; k++)
      if (s.count[k]) host[k] = make_int2(int(s.x[k] / s.count[k]), int(s.y[k] / s.count[k]));
    moved = s.moved;
  }
  int2 *d_points, *d_centres;
  int* d_cluster;
  Sums *d_sums, sums;
  CHECK(hipMalloc(&d_points, n * sizeof(int2)));
  CHECK(hipMalloc(&d_centres, K * sizeof(int2)));
  CHECK(hipMalloc(&d_cluster, n * sizeof(int)));
  CHECK(hipMalloc(&d_sums, sizeof(Sums)));
  CHECK(hipMemcpy(d_points, points.data(), n * sizeof(int2), hipMemcpyHostToDevice));
  CHECK(hipMemcpy(d_centres, centres.data(), K * sizeof(int2), hipMemcpyHostToDevice));
  CHECK(hipMemset(d_cluster, 0xff, n * sizeof(int)));
  int rounds = 0;
  do {
    CHECK(hipMemset(d_sums, 0, sizeof(Sums)));
    assign<<<8, 128>>>(d_points, n, d_centres, d_cluster, d_sums);
    update<<<1, K>>>(d_centres, d_sums);
    CHECK(hipMemcpy(&sums, d_sums, sizeof sums, hipMemcpyDeviceToHost));
    rounds++;
  } while (sums.moved && rounds < 100);
  CHECK(hipMemcpy(cluster.data(), d_cluster, n * sizeof(int), hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(result.data(), d_centres, K * sizeof(int2), hipMemcpyDeviceToHost));
  bool right = cluster == expected;
  for (int k = 0; k < K; k++) right = right && result[k].x == host[k].x && result[k].y == host[k].y;
  printf("k-means: %d points, %d clusters, %d rounds, %s\n", n, K, rounds, right ? "as on the host" : "WRONG");
  CHECK(hipFree(d_points));
  CHECK(hipFree(d_centres));
  CHECK(hipFree(d_cluster));
  CHECK(hipFree(d_sums));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
