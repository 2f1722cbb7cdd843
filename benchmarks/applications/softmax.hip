// Softmax of rows in one pass over memory (running maximum and sum), in place, for several types.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#define HIP_CHECK(cmd)                                                               \
  do {                                                                               \
    auto error = (cmd);                                                              \
    if (error != hipSuccess) {                                                       \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, hipGetErrorString(error));   \
      exit(EXIT_FAILURE);                                                            \
    }                                                                                \
  } while (0)

struct Running {
  float largest, sum;
};

__device__ Running merge(Running a, Running b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {largest, 0};
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

template <typename T>
__global__ void softmax(T* data, int columns) {
  T* row = data + size_t(blockIdx.x) * columns;
  __shared__ Running waves[16];
  Running r = {-INFINITY, 0};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) r = merge(r, {float(row[i]), 1});
  for (int offset = warpSize / 2; offset > 0; offset /= 2) r = merge(r, {__shfl_xor(r.largest, offset), __shfl_xor(r.sum, offset)});
  if (threadIdx.x % warpSize == 0) waves[threadIdx.x / warpSize] = r;
  __syncthreads();
  r = waves[0];
  for (unsigned w = 1; w < blockDim.x / warpSize; w++) r = merge(r, waves[w]);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = T(__expf(float(row[i]) - r.largest) / r.sum);
}

template <typename T>
static bool test(const char* type, int rows, int columns, float tolerance, double smallest_normal) {
  std::vector<T> in(rows * columns), out(rows * columns);
  for (int i = 0; i < rows * columns; i++) in[i] = T(float((i * 37) % 200) / 20 - 5);
  T* data;
  HIP_CHECK(hipMalloc(&data, in.size() * sizeof(T)));
  HIP_CHECK(hipMemcpy(data, in.data(), in.size() * sizeof(T), hipMemcpyHostToDevice));
  softmax<<<rows, 256>>>(data, columns);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(out.data(), data, out.size() * sizeof(T), hipMemcpyDeviceToHost));
  HIP_CHECK(hipFree(data));
  float largest = 0;
  for (int r = 0; r < rows; r++) {
    double sum = 0;
    for (int i = 0; i < columns; i++) sum += std::exp(double(float(in[r * columns + i])));
    for (int i = 0; i < columns; i++) {
      const double expected = std::exp(double(float(in[r * columns + i]))) / sum;
      largest = std::fmax(largest, float(std::fabs(float(out[r * columns + i]) - expected) / std::fmax(expected, smallest_normal)));
    }
  }
  printf("softmax %s %dx%d: %s\n", type, rows, columns, largest < tolerance ? "pass" : "fail");
  return largest < tolerance;
}

int main() {
  // Relative to the result: __expf of arguments up to 10 is good to 2e-6, halves have 11 bits, fewer below 2^-14.
  bool right = test<float>("float", 24, 1000, 2e-5f, FLT_MIN);
  right &= test<float>("float", 3, 17, 2e-5f, FLT_MIN);
  right &= test<__half>("half", 8, 200, 2e-3f, 6.103515625e-5);
  return right ? 0 : 1;
}
