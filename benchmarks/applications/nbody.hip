// Gravitational n-body simulation with tiles of positions in LDS; total momentum is conserved.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#define CHECK(x)                                                                                          \
  if (hipError_t e = (x); e != hipSuccess) {                                                              \
    fprintf(stderr, "HIP error %d (%s) at line %d\n", static_cast<int>(e), hipGetErrorString(e), __LINE__); \
    exit(1);                                                                                              \
  }

constexpr int TILE = 128;
constexpr float SOFTENING = 0.01f;

__host__ __device__ inline float3 attraction(float4 at, float4 body, float3 sum) {
  const float dx = body.x - at.x, dy = body.y - at.y, dz = body.z - at.z;
  const float square = dx * dx + dy * dy + dz * dz + SOFTENING;
  const float inverse = 1.0f / sqrtf(square);
  const float s = body.w * inverse * inverse * inverse;
  return make_float3(sum.x + dx * s, sum.y + dy * s, sum.z + dz * s);
}

__global__ void step(const float4* position, float4* next, float3* velocity, int n, float dt) {
  __shared__ float4 tile[TILE];
  const int i = blockIdx.x * TILE + threadIdx.x;
  const float4 me = position[i];
  float3 force = make_float3(0, 0, 0);
  for (int first = 0; first < n; first += TILE) {
    tile[threadIdx.x] = position[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < TILE; j++) force = attraction(me, tile[j], force);
    __syncthreads();
  }
  float3 v = velocity[i];
  v = make_float3(v.x + dt * force.x, v.y + dt * force.y, v.z + dt * force.z);
  velocity[i] = v;
  next[i] = make_float4(me.x + dt * v.x, me.y + dt * v.y, me.z + dt * v.z, me.w);
}

int main() {
  const int n = 1024, steps = 4;
  const float dt = 1e-4f;
  std::mt19937 random(7);
  auto uniform = [&] { return float(random()) / 4294967296.0f; };
  std::vector<float4> bodies(n), start;
  for (auto& b : bodies) {
    const float x = uniform() - 0.5f, y = uniform() - 0.5f, z = uniform() - 0.5f;
    b = make_float4(x, y, z, (1 + uniform()) / n);
  }
  start = bodies;
  float4 *current, *next;
  float3* velocity;
  CHECK(hipMalloc(&current, n * sizeof(float4)));
  CHECK(hipMalloc(&next, n * sizeof(float4)));
  CHECK(hipMalloc(&velocity, n * sizeof(float3)));
  CHECK(hipMemcpy(current, bodies.data(), n * sizeof(float4), hipMemcpyHostToDevice));
  CHECK(hipMemset(velocity, 0, n * sizeof(float3)));
  for (int k = 0; k < steps; k++) {
    step<<<n / TILE, TILE>>>(current, next, velocity, n, dt);
    CHECK(hipGetLastError());
    std::swap(current, next);
  }
  std::vector<float3> v(n);
  CHECK(hipMemcpy(bodies.data(), current, n * sizeof(float4), hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(v.data(), velocity, n * sizeof(float3), hipMemcpyDeviceToHost));

  // The host repeats the simulation for the bodies' state; the order of the sums is the same.
  std::vector<float4> a = start, b = start;
  std::vector<float3> w(n, make_float3(0, 0, 0));
  for (int k = 0; k < steps; k++) {
    for (int i = 0; i < n; i++) {
      float3 force = make_float3(0, 0, 0);
      for (int j = 0; j < n; j++) force = attraction(a[i], a[j], force);
      w[i] = make_float3(w[i].x + dt * force.x, w[i].y + dt * force.y, w[i].z + dt * force.z);
      b[i] = make_float4(a[i].x + dt * w[i].x, a[i].y + dt * w[i].y, a[i].z + dt * w[i].z, a[i].w);
    }
    std::swap(a, b);
  }
  double largest = 0, momentum = 0, scale = 0;
  for (int i = 0; i < n; i++) {
    largest = std::fmax(largest, std::fabs(a[i].x - bodies[i].x) + std::fabs(w[i].y - v[i].y));
    momentum += double(bodies[i].w) * v[i].x;
    scale += std::fabs(double(bodies[i].w) * v[i].x);
  }
  // 1024 terms of single precision: relative 1e-4 of velocities around 1e-3.
  const bool right = largest < 1e-6 && std::fabs(momentum) < 1e-4 * scale;
  printf("n-body: %d bodies, %d steps: %s\n", n, steps, right ? "correct" : "WRONG");
  if (!right) printf("largest difference %g, momentum %g of %g\n", largest, momentum, scale);
  CHECK(hipFree(current));
  CHECK(hipFree(next));
  CHECK(hipFree(velocity));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
