#include <gtest/gtest.h>
#include <hip/hip_runtime.h>
#include <tuple>
namespace acme { namespace detail {
template <int N> __global__ void scale(float* x, float f) { int i = blockIdx.x * N + threadIdx.x; x[i] *= f; }
}
template <int N> void launch(float* x, float f, int blocks, hipStream_t s = nullptr) { detail::scale<N><<<blocks, N, 0, s>>>(x, f); }
}
class ScaleTest : public ::testing::TestWithParam<std::tuple<int, float>> {
 protected:
  void SetUp() override { hipMalloc(&d, 4096 * 4); }
  void TearDown() override { hipFree(d); }
  float* d = nullptr;
};
TEST_P(ScaleTest, Works) {
  auto [n, f] = GetParam();
  acme::launch<256>(d, f, n / 256);
  ASSERT_EQ(hipGetLastError(), hipSuccess);
}
TEST(Scale, Small) {
  float* d;
  ASSERT_EQ(hipMalloc(&d, 512), hipSuccess);
  acme::launch<128>(d, 2.f, 1);
  EXPECT_EQ(hipDeviceSynchronize(), hipSuccess) << "sync";
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(i, i, 1e-5) << i;
}
INSTANTIATE_TEST_SUITE_P(All, ScaleTest, ::testing::Combine(::testing::Values(256, 512), ::testing::Values(1.f)));
int main(int argc, char** argv) { ::testing::InitGoogleTest(&argc, argv); return RUN_ALL_TESTS(); }
