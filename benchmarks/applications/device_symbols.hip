// __device__ globals: scalars, arrays, a pointer to device memory, static initialisers, symbol addresses and sizes.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define HIP_TRY(x)                                                 \
  if (hipError_t code = (x); code != hipSuccess) {                 \
    fprintf(stderr, "%s = %s\n", #x, hipGetErrorName(code));       \
    exit(1);                                                       \
  }

struct Settings {
  int offset;
  float scale;
  short table[6];
};

__device__ int counter = 40;
__device__ unsigned long long total;
__device__ float weights[4] = {1, 2, 4, 8};
__device__ int* output;
__constant__ Settings settings;
namespace detail {
static __device__ int hidden[3] = {5, 6, 7};
}
template <int N>
struct Shared {
  static __device__ int value;
};
template <int N>
__device__ int Shared<N>::value = N * 11;
template struct Shared<3>;

__global__ void use(int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  output[i] = int((i + settings.offset) * settings.scale * weights[i % 4]) + settings.table[i % 6] + detail::hidden[i % 3];
  atomicAdd(&total, (unsigned long long)output[i]);
  if (i == 0) counter += Shared<3>::value;
}

int main() {
  const int n = 777;
  const Settings host = {3, 0.5f, {1, 10, 100, 1000, 10000, 31000}};
  HIP_TRY(hipMemcpyToSymbol(HIP_SYMBOL(settings), &host, sizeof host));
  const float last = 16;
  HIP_TRY(hipMemcpyToSymbol(HIP_SYMBOL(weights), &last, sizeof last, 3 * sizeof(float)));
  int* memory;
  HIP_TRY(hipMalloc(&memory, n * sizeof(int)));
  HIP_TRY(hipMemcpyToSymbol(HIP_SYMBOL(output), &memory, sizeof memory));
  const int six = 60;
  void* address;
  size_t size = 0;
  HIP_TRY(hipGetSymbolAddress(&address, HIP_SYMBOL(detail::hidden)));
  HIP_TRY(hipGetSymbolSize(&size, HIP_SYMBOL(detail::hidden)));
  HIP_TRY(hipMemcpy(static_cast<int*>(address) + 1, &six, sizeof six, hipMemcpyHostToDevice));
  use<<<13, 64>>>(n);
  HIP_TRY(hipGetLastError());

  static int result[n];
  int counted = 0;
  unsigned long long sum = 0, expected_sum = 0;
  HIP_TRY(hipMemcpyFromSymbol(&counted, HIP_SYMBOL(counter), sizeof counted));
  HIP_TRY(hipMemcpyFromSymbol(&sum, HIP_SYMBOL(total), sizeof sum));
  HIP_TRY(hipMemcpy(result, memory, sizeof result, hipMemcpyDeviceToHost));
  const float w[4] = {1, 2, 4, 16};
  const int hidden[3] = {5, 60, 7};
  int wrong = 0;
  for (int i = 0; i < n; i++) {
    const int expected = int((i + 3) * 0.5f * w[i % 4]) + host.table[i % 6] + hidden[i % 3];
    wrong += result[i] != expected;
    expected_sum += expected;
  }
  printf("symbols: counter %d, array of %zu bytes, total %llu, %d wrong\n", counted, size, sum, wrong);
  HIP_TRY(hipFree(memory));
  return wrong == 0 && counted == 73 && size == 12 && sum == expected_sum ? 0 : 1;
}
