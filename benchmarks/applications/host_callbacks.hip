// Work of the host in a stream: host functions and callbacks run in order between kernels and copies.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#define CHECK(error)                                                             \
  if ((error) != hipSuccess) {                                                   \
    fprintf(stderr, "error in line %d\n", __LINE__);                             \
    exit(EXIT_FAILURE);                                                          \
  }

struct Stage {
  int* data;
  int n, order;
  long long sum;
};
static int sequence = 0;  // written by callbacks of one stream, which do not overlap

__global__ void increase(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += i;
}

static void summarize(void* argument) {
  Stage* stage = static_cast<Stage*>(argument);
  stage->sum = std::accumulate(stage->data, stage->data + stage->n, 0ll);
  stage->order = sequence++;
  for (int i = 0; i < stage->n; i++) stage->data[i] = stage->data[i] % 100;  // the next kernel sees this
}

static void finished(hipStream_t, hipError_t status, void* argument) { *static_cast<int*>(argument) = status == hipSuccess ? sequence++ : -1; }

int main() {
  const int n = 2000, stages = 4;
  int *host, *device, last = -1;
  CHECK(hipHostMalloc(&host, n * sizeof(int), hipHostMallocDefault));
  CHECK(hipMalloc(&device, n * sizeof(int)));
  for (int i = 0; i < n; i++) host[i] = 1;
  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  Stage stage[stages];
  for (int s = 0; s < stages; s++) {
    stage[s] = {host, n, -1, 0};
    CHECK(hipMemcpyAsync(device, host, n * sizeof(int), hipMemcpyHostToDevice, stream));
    increase<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
    CHECK(hipMemcpyAsync(host, device, n * sizeof(int), hipMemcpyDeviceToHost, stream));
    CHECK(hipLaunchHostFunc(stream, summarize, &stage[s]));
  }
  CHECK(hipStreamAddCallback(stream, finished, &last, 0));
  CHECK(hipStreamSynchronize(stream));
  std::vector<int> expected(n, 1);
  int wrong = last != stages;
  for (int s = 0; s < stages; s++) {
    for (int i = 0; i < n; i++) expected[i] += i;
    wrong += stage[s].sum != std::accumulate(expected.begin(), expected.end(), 0ll) || stage[s].order != s;
    for (int& v : expected) v %= 100;
    printf("stage %d: sum %lld\n", stage[s].order, stage[s].sum);
  }
  for (int i = 0; i < n; i++) wrong += host[i] != expected[i];
  CHECK(hipStreamDestroy(stream));
  CHECK(hipFree(device));
  CHECK(hipHostFree(host));
  printf("callbacks: %d wrong\n", wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
