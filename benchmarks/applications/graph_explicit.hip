// A graph built node by node: memset, copies, kernels, a host function; parameters of the instance change later.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#define HIP_CHECK(condition)                                                      \
  {                                                                               \
    const hipError_t error = condition;                                           \
    if (error != hipSuccess) {                                                    \
      std::fprintf(stderr, "An error encountered: \"%s\" at %s:%d\n", hipGetErrorString(error), __FILE__, __LINE__); \
      std::exit(EXIT_FAILURE);                                                    \
    }                                                                             \
  }

__global__ void block_sums(const int* in, int n, int* out) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&total, in[i]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, total);
}
__global__ void scale(int* value, int factor) { *value *= factor; }

static void count_call(void* data) { ++*static_cast<int*>(data); }

int main() {
  int n = 3000, calls = 0, sum = 0;
  std::vector<int> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 1);
  int *in, *out;
  HIP_CHECK(hipMalloc(&in, n * sizeof(int)));
  HIP_CHECK(hipMalloc(&out, sizeof(int)));

  hipGraph_t graph;
  HIP_CHECK(hipGraphCreate(&graph, 0));
  hipGraphNode_t clear, copy_in, add, multiply, copy_out, host;
  hipMemsetParams memset = {};
  memset.dst = out;
  memset.elementSize = sizeof(int);
  memset.width = 1;
  memset.height = 1;
  HIP_CHECK(hipGraphAddMemsetNode(&clear, graph, nullptr, 0, &memset));
  HIP_CHECK(hipGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, in, numbers.data(), n * sizeof(int), hipMemcpyHostToDevice));
  void* add_arguments[] = {&in, &n, &out};
  hipKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void*>(block_sums);
  kernel.gridDim = dim3((n + 127) / 128);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = add_arguments;
  const hipGraphNode_t ready[] = {clear, copy_in};
  HIP_CHECK(hipGraphAddKernelNode(&add, graph, ready, 2, &kernel));
  int factor = 2;
  void* scale_arguments[] = {&out, &factor};
  kernel.func = reinterpret_cast<void*>(scale);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = scale_arguments;
  HIP_CHECK(hipGraphAddKernelNode(&multiply, graph, &add, 1, &kernel));
  HIP_CHECK(hipGraphAddMemcpyNode1D(&copy_out, graph, &multiply, 1, &sum, out, sizeof(int), hipMemcpyDeviceToHost));
  hipHostNodeParams host_parameters = {};
  host_parameters.fn = count_call;
  host_parameters.userData = &calls;
  HIP_CHECK(hipGraphAddHostNode(&host, graph, &copy_out, 1, &host_parameters));

  hipGraphExec_t instance;
  HIP_CHECK(hipGraphInstantiate(&instance, graph, nullptr, nullptr, 0));
  hipStream_t stream;
  HIP_CHECK(hipStreamCreate(&stream));
  HIP_CHECK(hipGraphLaunch(instance, stream));
  HIP_CHECK(hipStreamSynchronize(stream));
  const int first = sum;
  factor = 5;
  HIP_CHECK(hipGraphExecKernelNodeSetParams(instance, multiply, &kernel));
  HIP_CHECK(hipGraphLaunch(instance, stream));
  HIP_CHECK(hipStreamSynchronize(stream));
  size_t edges = 0;
  HIP_CHECK(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  const int expected = n * (n + 1) / 2;
  const bool right = first == 2 * expected && sum == 5 * expected && calls == 2;
  std::printf("explicit graph: %zu edges, results %d %d, %d host calls: %s\n", edges, first, sum, calls, right ? "ok" : "wrong");
  HIP_CHECK(hipStreamDestroy(stream));
  HIP_CHECK(hipGraphExecDestroy(instance));
  HIP_CHECK(hipGraphDestroy(graph));
  HIP_CHECK(hipFree(in));
  HIP_CHECK(hipFree(out));
  return right ? 0 : 1;
}
