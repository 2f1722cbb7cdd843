// Dynamic LDS beyond the default of static memory, split by hand into arrays of several types; size per launch.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(expr)                                                           \
  do {                                                                        \
    hipError_t r = (expr);                                                    \
    if (r != hipSuccess) {                                                    \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(r)); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

// Each block sorts the indices of one row by value: odd-even transposition in dynamic LDS.
__global__ void argsort(const double* rows, unsigned short* order, int n) {
  HIP_DYNAMIC_SHARED(double, values)
  unsigned short* index = reinterpret_cast<unsigned short*>(values + n);
  int* swaps = reinterpret_cast<int*>(index + (n + 3) / 4 * 4);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    values[i] = rows[blockIdx.x * n + i];
    index[i] = (unsigned short)i;
  }
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) *swaps = 0;
    __syncthreads();
    for (int odd = 0; odd < 2; odd++) {
      for (int i = 2 * threadIdx.x + odd; i + 1 < n; i += 2 * blockDim.x)
        if (values[i] > values[i + 1] || (values[i] == values[i + 1] && index[i] > index[i + 1])) {
          const double v = values[i];
          const unsigned short k = index[i];
          values[i] = values[i + 1];
          index[i] = index[i + 1];
          values[i + 1] = v;
          index[i + 1] = k;
          atomicAdd(swaps, 1);
        }
      __syncthreads();
    }
    if (*swaps == 0) break;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) order[blockIdx.x * n + i] = index[i];
}

__global__ void reverse_large(int* data, int n) {
  extern __shared__ __align__(16) unsigned char memory[];
  int* copy = reinterpret_cast<int*>(memory);
  for (int i = threadIdx.x; i < n; i += blockDim.x) copy[i] = data[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = copy[n - 1 - i];
}

static int sort_rows(int rows, int n) {
  std::vector<double> values(rows * n);
  std::vector<unsigned short> order(rows * n);
  for (int i = 0; i < rows * n; i++) values[i] = (i * 7919 % 251) / 4.0;
  double* d_values;
  unsigned short* d_order;
  CHECK(hipMalloc(&d_values, values.size() * sizeof(double)));
  CHECK(hipMalloc(&d_order, order.size() * sizeof(unsigned short)));
  CHECK(hipMemcpy(d_values, values.data(), values.size() * sizeof(double), hipMemcpyHostToDevice));
  const size_t lds = n * sizeof(double) + (n + 3) / 4 * 4 * sizeof(unsigned short) + sizeof(int);
  argsort<<<rows, 64, lds>>>(d_values, d_order, n);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(order.data(), d_order, order.size() * sizeof(unsigned short), hipMemcpyDeviceToHost));
  CHECK(hipFree(d_values));
  CHECK(hipFree(d_order));
  int wrong = 0;
  for (int r = 0; r < rows; r++) {
    std::vector<unsigned short> expected(n);
    for (int i = 0; i < n; i++) expected[i] = (unsigned short)i;
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) { return values[r * n + a] < values[r * n + b]; });
    wrong += !std::equal(expected.begin(), expected.end(), order.begin() + r * n);
  }
  printf("argsort of %d rows of %d: %d wrong\n", rows, n, wrong);
  return wrong;
}

int main() {
  int failures = sort_rows(6, 100) + sort_rows(3, 61) + sort_rows(2, 1);
  const int n = 16000;  // 62.5 KiB of 64
  int limit = 0;
  CHECK(hipDeviceGetAttribute(&limit, hipDeviceAttributeMaxSharedMemoryPerBlock, 0));
  CHECK(hipFuncSetAttribute(reinterpret_cast<const void*>(reverse_large), hipFuncAttributeMaxDynamicSharedMemorySize, n * sizeof(int)));
  std::vector<int> data(n);
  for (int i = 0; i < n; i++) data[i] = i * 3;
  int* device;
  CHECK(hipMalloc(&device, n * sizeof(int)));
  CHECK(hipMemcpy(device, data.data(), n * sizeof(int), hipMemcpyHostToDevice));
  reverse_large<<<1, 512, n * sizeof(int)>>>(device, n);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(data.data(), device, n * sizeof(int), hipMemcpyDeviceToHost));
  CHECK(hipFree(device));
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += data[i] != (n - 1 - i) * 3;
  printf("limit %d bytes, reversed through %zu: %d wrong\n", limit, n * sizeof(int), wrong);
  return failures + wrong ? 1 : 0;
}
