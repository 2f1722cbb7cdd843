// hipLaunchHostFunc reads the result of the copy before it and prepares the input of the kernel after it; a callback counts.
#include "../../program.h"
constexpr int N = 512;
__global__ void add_bias(int *values, const int *bias) { values[blockIdx.x * 256 + threadIdx.x] += *bias; }
struct Exchange {
  int *pinned, *bias;
  int calls;
};
static void prepare(void *data) {
  auto *exchange = static_cast<Exchange *>(data);
  *exchange->bias = exchange->pinned[N - 1];
}
static void finished(hipStream_t, hipError_t, void *data) { static_cast<Exchange *>(data)->calls++; }
int main() {
  int *values = device(std::vector<int>(N, 5));
  Exchange exchange{};
  HIP(hipHostMalloc(&exchange.pinned, N * sizeof(int)));
  HIP(hipHostMalloc(&exchange.bias, sizeof(int)));
  *exchange.bias = 1;
  hipStream_t stream;
  HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  for (int step = 0; step < 3; step++) {
    add_bias<<<N / 256, 256, 0, stream>>>(values, exchange.bias);
    HIP(hipMemcpyAsync(exchange.pinned, values, N * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP(hipLaunchHostFunc(stream, prepare, &exchange));
    HIP(hipStreamAddCallback(stream, finished, &exchange, 0));
  }
  HIP(hipStreamSynchronize(stream));
  bool right = exchange.calls == 3 && host(values, N)[0] == 24 && *exchange.bias == 24;
  HIP(hipStreamDestroy(stream));
  HIP(hipHostFree(exchange.pinned));
  HIP(hipHostFree(exchange.bias));
  HIP(hipFree(values));
  return ended(right);
}
