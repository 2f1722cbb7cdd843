// European options: Black-Scholes in closed form, and Monte Carlo paths with Box-Muller normals per block.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_HIP_ERROR(error)                                                                     \
  if ((error) != hipSuccess) {                                                                     \
    std::fprintf(stderr, "hip error in line %d: %s\n", __LINE__, hipGetErrorString(error));        \
    std::exit(EXIT_FAILURE);                                                                       \
  }

struct Option {
  float spot, strike, years;
};
constexpr float RATE = 0.03f, VOLATILITY = 0.25f;

__host__ __device__ inline float normal_cdf(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

__host__ __device__ inline float2 black_scholes(Option o) {
  const float root = VOLATILITY * sqrtf(o.years);
  const float d1 = (logf(o.spot / o.strike) + (RATE + 0.5f * VOLATILITY * VOLATILITY) * o.years) / root;
  const float discounted = o.strike * expf(-RATE * o.years);
  const float call = o.spot * normal_cdf(d1) - discounted * normal_cdf(d1 - root);
  return make_float2(call, call - o.spot + discounted);  // put by parity
}

__global__ void closed_form(const Option* options, float2* prices, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) prices[i] = black_scholes(options[i]);
}

__device__ uint32_t next(uint32_t& state) {  // xorshift
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

__global__ void simulate(const Option* options, float* prices, int paths) {
  __shared__ double sums[128];
  const Option o = options[blockIdx.x];
  uint32_t state = 0x9e3779b9u * (blockIdx.x * blockDim.x + threadIdx.x + 1);
  for (int k = 0; k < 8; k++) next(state);
  const float drift = (RATE - 0.5f * VOLATILITY * VOLATILITY) * o.years, root = VOLATILITY * sqrtf(o.years);
  double sum = 0;
  for (int k = threadIdx.x; k < paths; k += blockDim.x) {
    const float u = (next(state) + 1.0f) / 4294967808.0f, v = next(state) / 4294967296.0f;
    const float z = sqrtf(-2 * logf(u)) * cospif(2 * v);
    for (float sign : {1.0f, -1.0f}) sum += fmaxf(o.spot * expf(drift + sign * root * z) - o.strike, 0.0f);  // antithetic
  }
  sums[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < unsigned(half)) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) prices[blockIdx.x] = float(sums[0] / (2 * paths)) * expf(-RATE * o.years);
}

int main() {
  const int n = 1000, simulated = 8, paths = 4096;
  std::vector<Option> options(n);
  for (int i = 0; i < n; i++) options[i] = {80.0f + (i * 7) % 40, 75.0f + (i * 3) % 50, 0.25f + (i % 10) * 0.2f};
  Option* d_options;
  float2* d_prices;
  float* d_simulated;
  CHECK_HIP_ERROR(hipMalloc(&d_options, n * sizeof(Option)));
  CHECK_HIP_ERROR(hipMalloc(&d_prices, n * sizeof(float2)));
  CHECK_HIP_ERROR(hipMalloc(&d_simulated, simulated * sizeof(float)));
  CHECK_HIP_ERROR(hipMemcpy(d_options, options.data(), n * sizeof(Option), hipMemcpyHostToDevice));
  closed_form<<<(n + 127) / 128, 128>>>(d_options, d_prices, n);
  simulate<<<simulated, 128>>>(d_options, d_simulated, paths);
  CHECK_HIP_ERROR(hipGetLastError());
  std::vector<float2> prices(n);
  std::vector<float> estimates(simulated);
  CHECK_HIP_ERROR(hipMemcpy(prices.data(), d_prices, n * sizeof(float2), hipMemcpyDeviceToHost));
  CHECK_HIP_ERROR(hipMemcpy(estimates.data(), d_simulated, simulated * sizeof(float), hipMemcpyDeviceToHost));
  float closed = 0, sampled = 0;
  for (int i = 0; i < n; i++) {
    const float2 expected = black_scholes(options[i]);
    closed = fmaxf(closed, fmaxf(fabsf(prices[i].x - expected.x), fabsf(prices[i].y - expected.y)));
  }
  for (int i = 0; i < simulated; i++) sampled = fmaxf(sampled, fabsf(estimates[i] - prices[i].x) / prices[i].x);
  // Functions of 2 ulp on amounts around 100; the deviation of 8192 samples is about 1% of the price.
  const bool right = closed < 2e-4f && sampled < 0.06f;
  std::printf("options: closed form %s, Monte Carlo %s\n", closed < 2e-4f ? "ok" : "WRONG", sampled < 0.06f ? "ok" : "WRONG");
  CHECK_HIP_ERROR(hipFree(d_options));
  CHECK_HIP_ERROR(hipFree(d_prices));
  CHECK_HIP_ERROR(hipFree(d_simulated));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
