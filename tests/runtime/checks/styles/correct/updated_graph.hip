// A captured graph with a fork and a join is launched many times, with new parameters of a kernel node in between.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
#define X(call) do { hipError_t e = call; if (e != hipSuccess) { std::printf("%d: %s\n", __LINE__, hipGetErrorString(e)); return 1; } } while (0)

__global__ void multiply(int *p, int by) { p[threadIdx.x] *= by; }
__global__ void join(const int *a, const int *b, int *out) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }

int main() {
  int *a, *b, *out, *host;
  X(hipMalloc(&a, 256));
  X(hipMalloc(&b, 256));
  X(hipMalloc(&out, 256));
  X(hipHostMalloc((void **)&host, 256));
  hipStream_t main_stream, side;
  hipEvent_t fork, joined;
  X(hipStreamCreate(&main_stream));
  X(hipStreamCreate(&side));
  X(hipEventCreate(&fork));
  X(hipEventCreate(&joined));
  std::vector<int> ones(64, 1);
  X(hipMemcpy(a, ones.data(), 256, hipMemcpyHostToDevice));
  X(hipMemcpy(b, ones.data(), 256, hipMemcpyHostToDevice));
  X(hipStreamBeginCapture(main_stream, hipStreamCaptureModeRelaxed));
  X(hipEventRecord(fork, main_stream));
  X(hipStreamWaitEvent(side, fork, 0));
  multiply<<<1, 64, 0, main_stream>>>(a, 2);
  multiply<<<1, 64, 0, side>>>(b, 3);
  X(hipEventRecord(joined, side));
  X(hipStreamWaitEvent(main_stream, joined, 0));
  join<<<1, 64, 0, main_stream>>>(a, b, out);
  X(hipMemcpyAsync(host, out, 256, hipMemcpyDeviceToHost, main_stream));
  hipGraph_t graph;
  X(hipStreamEndCapture(main_stream, &graph));
  hipGraphExec_t executable;
  X(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  X(hipGraphLaunch(executable, main_stream));
  X(hipGraphLaunch(executable, main_stream));
  size_t count = 0;
  X(hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  X(hipGraphGetNodes(graph, nodes.data(), &count));
  int by = 10, changed = 0;
  for (hipGraphNode_t node : nodes) {
    hipGraphNodeType type;
    X(hipGraphNodeGetType(node, &type));
    if (type != hipGraphNodeTypeKernel) continue;
    hipKernelNodeParams parameters;
    X(hipGraphKernelNodeGetParams(node, &parameters));
    if (parameters.func != (void *)multiply || *static_cast<int **>(parameters.kernelParams[0]) != a) continue;
    void *arguments[] = {&a, &by};
    parameters.kernelParams = arguments;
    X(hipGraphExecKernelNodeSetParams(executable, node, &parameters));
    changed++;
  }
  X(hipGraphLaunch(executable, main_stream));
  X(hipStreamSynchronize(main_stream));
  bool right = changed == 1 && host[63] == 2 * 2 * 10 + 27;
  X(hipGraphExecDestroy(executable));
  X(hipGraphDestroy(graph));
  X(hipEventDestroy(fork));
  X(hipEventDestroy(joined));
  X(hipStreamDestroy(main_stream));
  X(hipStreamDestroy(side));
  X(hipHostFree(host));
  X(hipFree(a));
  X(hipFree(b));
  X(hipFree(out));
  std::puts(right ? "right" : "wrong");
  if (!right) std::printf("%d %d\n", changed, host[63]);
  return !right;
}
