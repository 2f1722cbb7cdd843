// Graph of three nodes: the last one depends on one of its two inputs only.
#include "../../program.h"
constexpr int N = 2048;
__global__ void left(int *to) { to[blockIdx.x * 256 + threadIdx.x] = threadIdx.x; }
__global__ void right(int *to) { to[blockIdx.x * 256 + threadIdx.x] = blockIdx.x; }  // DEFECT stream_race
__global__ void join(const int *a, const int *b, int *to) {
  int i = blockIdx.x * 256 + threadIdx.x;
  to[i] = a[i] + b[i];  // DEFECT stream_race
}
int main() {
  int *a, *b, *c;
  for (int **memory : {&a, &b, &c}) HIP(hipMalloc(memory, N * sizeof(int)));
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t first, second, third;
  void *left_arguments[] = {&a}, *right_arguments[] = {&b}, *join_arguments[] = {&a, &b, &c};
  hipKernelNodeParams node{};
  node.gridDim = dim3(N / 256);
  node.blockDim = dim3(256);
  node.func = reinterpret_cast<void *>(left);
  node.kernelParams = left_arguments;
  HIP(hipGraphAddKernelNode(&first, graph, nullptr, 0, &node));
  node.func = reinterpret_cast<void *>(right);
  node.kernelParams = right_arguments;
  HIP(hipGraphAddKernelNode(&second, graph, nullptr, 0, &node));
  node.func = reinterpret_cast<void *>(join);
  node.kernelParams = join_arguments;
  HIP(hipGraphAddKernelNode(&third, graph, &first, 1, &node));
  hipGraphExec_t runnable;
  HIP(hipGraphInstantiate(&runnable, graph, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(runnable, nullptr));  // DEFECT stream_race
  HIP(hipDeviceSynchronize());
  HIP(hipGraphExecDestroy(runnable));
  HIP(hipGraphDestroy(graph));
  for (int *memory : {a, b, c}) HIP(hipFree(memory));
  return ended(true);
}
