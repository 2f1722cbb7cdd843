// A graph by stream capture with a fork and a join between streams, launched often.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define checkHip(x) check_(x, #x, __LINE__)
static void check_(hipError_t code, const char* call, int line) {
  if (code == hipSuccess) return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, hipGetErrorName(code));
  exit(1);
}

__global__ void add(int* x, int value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}
__global__ void sum(const int* x, const int* y, int* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] += x[i] * y[i];
}

int main() {
  const int n = 5000, blocks = (n + 255) / 256, launches = 20;
  const size_t bytes = n * sizeof(int);
  int *x, *y, *z;
  checkHip(hipMalloc(&x, bytes));
  checkHip(hipMalloc(&y, bytes));
  checkHip(hipMalloc(&z, bytes));
  checkHip(hipMemset(x, 0, bytes));
  checkHip(hipMemset(y, 0, bytes));
  checkHip(hipMemset(z, 0, bytes));
  checkHip(hipDeviceSynchronize());
  int* result;
  checkHip(hipHostMalloc(&result, bytes, hipHostMallocDefault));
  hipStream_t stream, side;
  hipEvent_t fork, join;
  checkHip(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  checkHip(hipStreamCreateWithFlags(&side, hipStreamNonBlocking));
  checkHip(hipEventCreate(&fork));
  checkHip(hipEventCreate(&join));

  checkHip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  checkHip(hipEventRecord(fork, stream));
  checkHip(hipStreamWaitEvent(side, fork, 0));
  add<<<blocks, 256, 0, stream>>>(x, 1, n);
  add<<<blocks, 256, 0, side>>>(y, 2, n);
  checkHip(hipEventRecord(join, side));
  checkHip(hipStreamWaitEvent(stream, join, 0));
  sum<<<blocks, 256, 0, stream>>>(x, y, z, n);
  checkHip(hipMemcpyAsync(result, z, bytes, hipMemcpyDeviceToHost, stream));
  hipGraph_t graph;
  checkHip(hipStreamEndCapture(stream, &graph));

  size_t nodes = 0;
  checkHip(hipGraphGetNodes(graph, nullptr, &nodes));
  hipGraphExec_t executable;
  checkHip(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int k = 0; k < launches; k++) checkHip(hipGraphLaunch(executable, stream));
  checkHip(hipStreamSynchronize(stream));
  int expected = 0, wrong = 0;
  for (int k = 1; k <= launches; k++) expected += k * 2 * k;
  for (int i = 0; i < n; i++) wrong += result[i] != expected;
  printf("graph of %zu nodes, %d launches: %d, %d wrong\n", nodes, launches, result[0], wrong);

  checkHip(hipGraphExecDestroy(executable));
  checkHip(hipGraphDestroy(graph));
  checkHip(hipEventDestroy(fork));
  checkHip(hipEventDestroy(join));
  checkHip(hipStreamDestroy(stream));
  checkHip(hipStreamDestroy(side));
  checkHip(hipFree(x));
  checkHip(hipFree(y));
  checkHip(hipFree(z));
  checkHip(hipHostFree(result));
  return wrong != 0;
}
