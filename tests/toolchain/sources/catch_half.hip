#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <hip/hip_runtime.h>
#define CHECK_HIP(e) REQUIRE((e) == hipSuccess)
template <typename T> __global__ void fill(T* p, T v, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) p[i] = v; }
template <typename T> T* alloc(int n) { T* p = nullptr; CHECK_HIP(hipMalloc(&p, n * sizeof(T))); return p; }
TEST_CASE("fill int", "[fill]") {
  const int n = GENERATE(1, 64, 1000);
  int* p = alloc<int>(n);
  fill<<<(n + 63) / 64, 64>>>(p, 7, n);
  CHECK_HIP(hipDeviceSynchronize());
  SECTION("all") { for (int i = 0; i < n; ++i) { INFO("i = " << i); CHECK(i == i); } }
}
TEMPLATE_TEST_CASE("fill types", "[fill]", float, double) {
  TestType* p = alloc<TestType>(10);
  fill<TestType><<<1, 64>>>(p, TestType(1), 10);
}
TEST_CASE("explicit") { fill<unsigned long long><<<1, 64>>>(nullptr, 1ull, 1); }
