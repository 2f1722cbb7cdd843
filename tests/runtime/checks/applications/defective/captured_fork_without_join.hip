// Captured graph with a fork: the copy does not wait for the second branch, which is joined later.
#include "../../program.h"
constexpr int N = 2048;
__global__ void fill(int *to, int value) { to[blockIdx.x * 256 + threadIdx.x] = value; }  // DEFECT stream_race
int main() {
  int *memory, *pinned;
  HIP(hipMalloc(&memory, N * sizeof(int)));
  HIP(hipHostMalloc(&pinned, N * sizeof(int)));
  hipStream_t main_stream, branch;
  HIP(hipStreamCreateWithFlags(&main_stream, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&branch, hipStreamNonBlocking));
  hipEvent_t forked, joined;
  HIP(hipEventCreateWithFlags(&forked, hipEventDisableTiming));
  HIP(hipEventCreateWithFlags(&joined, hipEventDisableTiming));
  HIP(hipStreamBeginCapture(main_stream, hipStreamCaptureModeGlobal));
  HIP(hipEventRecord(forked, main_stream));
  HIP(hipStreamWaitEvent(branch, forked, 0));
  fill<<<N / 256, 256, 0, branch>>>(memory, 5);
  HIP(hipEventRecord(joined, branch));
  HIP(hipMemcpyAsync(pinned, memory, N * sizeof(int), hipMemcpyDeviceToHost, main_stream));
  HIP(hipStreamWaitEvent(main_stream, joined, 0));
  hipGraph_t graph;
  HIP(hipStreamEndCapture(main_stream, &graph));
  hipGraphExec_t runnable;
  HIP(hipGraphInstantiate(&runnable, graph, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(runnable, main_stream));  // DEFECT stream_race
  HIP(hipStreamSynchronize(main_stream));
  HIP(hipGraphExecDestroy(runnable));
  HIP(hipGraphDestroy(graph));
  HIP(hipEventDestroy(forked));
  HIP(hipEventDestroy(joined));
  HIP(hipStreamDestroy(main_stream));
  HIP(hipStreamDestroy(branch));
  HIP(hipHostFree(pinned));
  HIP(hipFree(memory));
  return ended(true);
}
