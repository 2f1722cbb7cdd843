// Explicit graph with a child graph: the memset that clears the sum is no dependency of the kernel that adds to it.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(hipError_t status) {
  if (status != hipSuccess) {
    std::printf("%s\n", hipGetErrorString(status));
    std::exit(1);
  }
}
__global__ void add(int *sum, const int *in) { atomicAdd(sum, in[threadIdx.x]); }  // DEFECT stream_race
__global__ void prepare(int *in) { in[threadIdx.x] = int(threadIdx.x); }

int main() {
  int *in, *sum;
  must(hipMalloc(&in, 256 * sizeof(int)));
  must(hipMalloc(&sum, sizeof(int)));
  must(hipMemset(sum, 0, sizeof(int)));
  must(hipDeviceSynchronize());

  hipGraph_t inner, outer;
  hipGraphNode_t prepared, cleared, added;
  must(hipGraphCreate(&inner, 0));
  must(hipGraphCreate(&outer, 0));
  void *prepareArguments[] = {&in}, *addArguments[] = {&sum, &in};
  hipKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void *>(prepare);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(256);
  kernel.kernelParams = prepareArguments;
  must(hipGraphAddKernelNode(&prepared, inner, nullptr, 0, &kernel));
  must(hipGraphAddChildGraphNode(&prepared, outer, nullptr, 0, inner));
  hipMemsetParams clear{};
  clear.dst = sum;
  clear.elementSize = sizeof(int);
  clear.width = 1;
  clear.height = 1;
  must(hipGraphAddMemsetNode(&cleared, outer, nullptr, 0, &clear));
  kernel.func = reinterpret_cast<void *>(add);
  kernel.kernelParams = addArguments;
  must(hipGraphAddKernelNode(&added, outer, &prepared, 1, &kernel));  // cleared is missing

  hipGraphExec_t executable;
  hipStream_t stream;
  must(hipGraphInstantiate(&executable, outer, nullptr, nullptr, 0));
  must(hipStreamCreate(&stream));
  must(hipGraphLaunch(executable, stream));  // DEFECT stream_race
  must(hipStreamSynchronize(stream));
  must(hipGraphExecDestroy(executable));
  must(hipGraphDestroy(outer));
  must(hipGraphDestroy(inner));
  must(hipStreamDestroy(stream));
  must(hipFree(in));
  must(hipFree(sum));
  std::puts("ended");
}
