// Errors of launches, attributes and occupancy of kernels, symbols, graphs: the output is the same under each runtime.
#include <hip/hip_ext.h>
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void small(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ __launch_bounds__(128) void bounded(int* x) { x[threadIdx.x] = 2; }
__global__ void with_lds(int* x) {
  __shared__ int part[4096];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
__global__ void where(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = blockDim.x * 1000 + gridDim.x;
}
__device__ int variable[4] = {1, 2, 3, 4};
__global__ void bump() { variable[threadIdx.x]++; }
static void not_a_kernel() {}

#define SHOW(call)                                                        \
  do {                                                                    \
    hipError_t status = (call);                                           \
    hipError_t last = hipGetLastError();                                  \
    printf("%s -> %s, last %s\n", #call, hipGetErrorName(status), hipGetErrorName(last)); \
  } while (0)

static void launches(int* x) {
  void* arguments[] = {&x};
  auto function = reinterpret_cast<const void*>(small);
  SHOW(hipLaunchKernel(function, dim3(1), dim3(1025), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(function, dim3(0), dim3(64), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(function, dim3(1), dim3(0), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(function, dim3(1), dim3(64, 64), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(function, dim3(1), dim3(64), arguments, 1 << 20, nullptr));
  SHOW(hipLaunchKernel(function, dim3(1), dim3(64), arguments, 65536, nullptr));
  SHOW(hipLaunchKernel(function, dim3(1u << 31), dim3(64), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(reinterpret_cast<const void*>(bounded), dim3(1), dim3(256), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(reinterpret_cast<const void*>(not_a_kernel), dim3(1), dim3(64), arguments, 0, nullptr));
  SHOW(hipLaunchKernel(nullptr, dim3(1), dim3(64), arguments, 0, nullptr));
  SHOW(hipLaunchCooperativeKernel(function, dim3(100000), dim3(256), arguments, 0, nullptr));
  SHOW(hipModuleLaunchKernel(nullptr, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  SHOW(hipDeviceSynchronize());
}
static void functions(int* x) {
  hipFunction_t function;
  SHOW(hipGetFuncBySymbol(&function, reinterpret_cast<const void*>(where)));
  void* arguments[] = {&x};
  SHOW(hipExtModuleLaunchKernel(function, 130, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr, nullptr, nullptr, 0));
  SHOW(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, arguments));
  size_t bytes = sizeof x;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &x, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  int host[3];
  SHOW(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
  printf("%d %d %d\n", host[0], host[1], host[2]);
  SHOW(hipModuleLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  SHOW(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
  printf("%d %d\n", host[0], host[1]);
}
static void attributes() {
  for (auto function : {reinterpret_cast<const void*>(small), reinterpret_cast<const void*>(bounded), reinterpret_cast<const void*>(with_lds)}) {
    hipFuncAttributes a;
    SHOW(hipFuncGetAttributes(&a, function));
    printf("max %d lds %zu dynamic %d local %zu\n", a.maxThreadsPerBlock, a.sharedSizeBytes, a.maxDynamicSharedSizeBytes, a.localSizeBytes);
    for (int block : {32, 64, 100, 256, 1024})
      for (int lds : {0, 1000, 30000}) {
        int blocks = -1;
        hipError_t status = hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, block, lds);
        printf("%d %d: %s %d\n", block, lds, hipGetErrorName(status), blocks);
      }
    int grid = 0, block = 0;
    SHOW(hipOccupancyMaxPotentialBlockSize(&grid, &block, function, 0, 0));
    printf("%d %d\n", grid, block);
    SHOW(hipOccupancyMaxPotentialBlockSize(&grid, &block, function, 0, 128));
    printf("%d %d\n", grid, block);
  }
  int blocks;
  SHOW(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void*>(small), 2000, 0));
  SHOW(hipFuncSetAttribute(reinterpret_cast<const void*>(small), hipFuncAttributeMaxDynamicSharedMemorySize, 32768));
  SHOW(hipFuncSetCacheConfig(reinterpret_cast<const void*>(small), hipFuncCachePreferL1));
}
static void symbols() {
  size_t size = 0;
  int value[4] = {0};
  SHOW(hipGetSymbolSize(&size, HIP_SYMBOL(variable)));
  printf("%zu\n", size);
  bump<<<1, 4>>>();
  SHOW(hipMemcpyFromSymbol(value, HIP_SYMBOL(variable), 8, 4, hipMemcpyDeviceToHost));
  printf("%d %d\n", value[0], value[1]);
  SHOW(hipMemcpyFromSymbol(value, HIP_SYMBOL(variable), 8, 12, hipMemcpyDeviceToHost));
  SHOW(hipMemcpyToSymbol(HIP_SYMBOL(variable), value, 4, 0, hipMemcpyDeviceToHost));
  int host_only = 0;
  SHOW(hipMemcpyToSymbol(HIP_SYMBOL(host_only), value, 4));
  void* address;
  SHOW(hipGetSymbolAddress(&address, HIP_SYMBOL(host_only)));
}
static void modules() {
  hipModule_t module;
  hipFunction_t function;
  SHOW(hipModuleLoad(&module, "/no/such/file"));
  SHOW(hipModuleLoadData(&module, nullptr));
  SHOW(hipModuleGetFunction(&function, nullptr, "f"));
}
static void capture(int* x) {
  hipStream_t a, b;
  hipEvent_t fork, join;
  hipGraph_t graph = nullptr;
  hipGraphExec_t executable;
  SHOW(hipStreamCreate(&a));
  SHOW(hipStreamCreate(&b));
  SHOW(hipEventCreate(&fork));
  SHOW(hipEventCreate(&join));
  SHOW(hipMemset(x, 0, 1024));
  SHOW(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal));
  SHOW(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  SHOW(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  small<<<1, 64, 0, a>>>(x);
  SHOW(hipEventRecord(fork, a));
  SHOW(hipStreamWaitEvent(b, fork, 0));
  small<<<1, 64, 0, b>>>(x + 64);
  SHOW(hipEventRecord(join, b));
  small<<<1, 64, 0, a>>>(x);
  SHOW(hipStreamWaitEvent(a, join, 0));
  small<<<2, 64, 0, a>>>(x);
  SHOW(hipStreamEndCapture(a, &graph));
  size_t nodes = 0, edges = 0, roots = 0;
  SHOW(hipGraphGetNodes(graph, nullptr, &nodes));
  SHOW(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  SHOW(hipGraphGetRootNodes(graph, nullptr, &roots));
  printf("%zu nodes, %zu edges, %zu roots\n", nodes, edges, roots);
  SHOW(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 3; i++) SHOW(hipGraphLaunch(executable, a));
  SHOW(hipStreamSynchronize(a));
  int host[128];
  SHOW(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
  printf("%d %d\n", host[0], host[64]);
  SHOW(hipGraphExecDestroy(executable));
  SHOW(hipGraphDestroy(graph));
  // Work that is not joined.
  SHOW(hipStreamBeginCapture(a, hipStreamCaptureModeRelaxed));
  SHOW(hipEventRecord(fork, a));
  SHOW(hipStreamWaitEvent(b, fork, 0));
  small<<<1, 64, 0, b>>>(x);
  SHOW(hipStreamEndCapture(b, &graph));
  SHOW(hipStreamEndCapture(a, &graph));
}
static void called(void* data) { ++*static_cast<int*>(data); }
static void nodes(int* x) {
  hipGraph_t graph, child;
  hipGraphNode_t fill, kernel, copy, host, inner, empty;
  static int calls, result[64];
  SHOW(hipGraphCreate(&graph, 0));
  SHOW(hipGraphCreate(&child, 0));
  hipMemsetParams memset = {};
  memset.dst = x;
  memset.elementSize = 4;
  memset.width = 64;
  memset.height = 1;
  memset.value = 5;
  SHOW(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &memset));
  void* arguments[] = {&x};
  hipKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(small);
  params.gridDim = dim3(1);
  params.blockDim = dim3(64);
  params.kernelParams = arguments;
  SHOW(hipGraphAddKernelNode(&inner, child, nullptr, 0, &params));
  SHOW(hipGraphAddChildGraphNode(&kernel, graph, &fill, 1, child));
  SHOW(hipGraphAddEmptyNode(&empty, graph, &kernel, 1));
  SHOW(hipGraphAddMemcpyNode1D(&copy, graph, &empty, 1, result, x, sizeof result, hipMemcpyDeviceToHost));
  hipHostNodeParams function = {called, &calls};
  SHOW(hipGraphAddHostNode(&host, graph, &copy, 1, &function));
  hipGraphExec_t executable;
  SHOW(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  SHOW(hipGraphLaunch(executable, nullptr));
  SHOW(hipDeviceSynchronize());
  printf("%d %d\n", result[63], calls);
  memset.value = 9;
  SHOW(hipGraphExecMemsetNodeSetParams(executable, fill, &memset));
  SHOW(hipGraphLaunch(executable, nullptr));
  SHOW(hipDeviceSynchronize());
  printf("%d %d\n", result[63], calls);
  hipGraph_t clone;
  SHOW(hipGraphClone(&clone, graph));
  hipGraphNode_t found;
  hipGraphNodeType type;
  SHOW(hipGraphNodeFindInClone(&found, host, clone));
  SHOW(hipGraphNodeGetType(found, &type));
  printf("type %d\n", int(type));
  SHOW(hipGraphDestroy(clone));
  hipGraphExecUpdateResult update;
  hipGraphNode_t failed;
  memset.value = 20;
  SHOW(hipGraphMemsetNodeSetParams(fill, &memset));
  SHOW(hipGraphExecUpdate(executable, graph, &failed, &update));
  printf("update %d\n", int(update));
  SHOW(hipGraphLaunch(executable, nullptr));
  SHOW(hipDeviceSynchronize());
  printf("%d %d\n", result[63], calls);
  SHOW(hipGraphAddEmptyNode(&empty, graph, &host, 1));
  SHOW(hipGraphExecUpdate(executable, graph, &failed, &update));
  printf("update %d\n", int(update));
}

int main() {
  int* x;
  SHOW(hipMalloc(&x, 1 << 16));
  launches(x);
  functions(x);
  attributes();
  symbols();
  modules();
  capture(x);
  nodes(x);
  return 0;
}
