// Explicit graph: memset, kernel, copy to pinned memory, and a host node that reads the copy.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>

static void must(hipError_t e) {
  if (e != hipSuccess) {
    std::puts(hipGetErrorString(e));
    std::exit(1);
  }
}
__global__ void sum(unsigned *total, unsigned n) {
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(total, i);
}
struct Context {
  unsigned *pinned;
  unsigned long long seen = 0;
  int calls = 0;
};
static void look(void *user) {
  auto *context = static_cast<Context *>(user);
  context->seen += *context->pinned;
  context->calls++;
}

int main() {
  unsigned *total, n = 1000;
  Context context;
  must(hipMalloc(&total, 4));
  must(hipHostMalloc((void **)&context.pinned, 4));
  hipGraph_t graph;
  must(hipGraphCreate(&graph, 0));
  hipGraphNode_t cleared, added, copied, looked;
  hipMemsetParams clear{};
  clear.dst = total;
  clear.elementSize = 4;
  clear.width = clear.height = 1;
  must(hipGraphAddMemsetNode(&cleared, graph, nullptr, 0, &clear));
  void *arguments[] = {&total, &n};
  hipKernelNodeParams kernel{};
  kernel.func = (void *)sum;
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = arguments;
  must(hipGraphAddKernelNode(&added, graph, &cleared, 1, &kernel));
  must(hipGraphAddMemcpyNode1D(&copied, graph, &added, 1, context.pinned, total, 4, hipMemcpyDeviceToHost));
  hipHostNodeParams host{look, &context};
  must(hipGraphAddHostNode(&looked, graph, &copied, 1, &host));
  hipGraphExec_t executable;
  must(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  hipStream_t stream;
  must(hipStreamCreate(&stream));
  for (int i = 0; i < 3; i++) must(hipGraphLaunch(executable, stream));
  must(hipStreamSynchronize(stream));
  must(hipGraphExecDestroy(executable));
  must(hipGraphDestroy(graph));
  must(hipStreamDestroy(stream));
  must(hipHostFree(context.pinned));
  must(hipFree(total));
  bool right = context.calls == 3 && context.seen == 3ull * 499500;
  std::puts(right ? "right" : "wrong");
  return !right;
}
