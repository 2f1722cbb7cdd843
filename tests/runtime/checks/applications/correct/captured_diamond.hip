// Captured graph with two branches that join, launched several times; the host changes the input between launches.
#include "../../program.h"
constexpr int N = 1024;
__global__ void scale(const int *in, int *out, int factor) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = factor * in[i];
}
__global__ void add(const int *a, const int *b, int *out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = a[i] + b[i];
}
int main() {
  int *pinned, *in, *a, *b, *out;
  HIP(hipHostMalloc(&pinned, N * sizeof(int)));
  for (int **memory : {&in, &a, &b, &out}) HIP(hipMalloc(memory, N * sizeof(int)));
  hipStream_t main_stream, branch;
  HIP(hipStreamCreateWithFlags(&main_stream, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&branch, hipStreamNonBlocking));
  hipEvent_t forked, joined;
  HIP(hipEventCreateWithFlags(&forked, hipEventDisableTiming));
  HIP(hipEventCreateWithFlags(&joined, hipEventDisableTiming));
  HIP(hipStreamBeginCapture(main_stream, hipStreamCaptureModeGlobal));
  HIP(hipMemcpyAsync(in, pinned, N * sizeof(int), hipMemcpyHostToDevice, main_stream));
  HIP(hipEventRecord(forked, main_stream));
  HIP(hipStreamWaitEvent(branch, forked, 0));
  scale<<<N / 256, 256, 0, main_stream>>>(in, a, 2);
  scale<<<N / 256, 256, 0, branch>>>(in, b, 3);
  HIP(hipEventRecord(joined, branch));
  HIP(hipStreamWaitEvent(main_stream, joined, 0));
  add<<<N / 256, 256, 0, main_stream>>>(a, b, out);
  HIP(hipMemcpyAsync(pinned, out, N * sizeof(int), hipMemcpyDeviceToHost, main_stream));
  hipGraph_t graph;
  HIP(hipStreamEndCapture(main_stream, &graph));
  hipGraphExec_t runnable;
  HIP(hipGraphInstantiate(&runnable, graph, nullptr, nullptr, 0));
  bool right = true;
  for (int launch = 0; launch < 3; launch++) {
    for (int i = 0; i < N; i++) pinned[i] = i + launch;
    HIP(hipGraphLaunch(runnable, main_stream));
    HIP(hipStreamSynchronize(main_stream));
    for (int i = 0; i < N; i++) right = right && pinned[i] == 5 * (i + launch);
  }
  HIP(hipGraphExecDestroy(runnable));
  HIP(hipGraphDestroy(graph));
  HIP(hipEventDestroy(forked));
  HIP(hipEventDestroy(joined));
  HIP(hipStreamDestroy(main_stream));
  HIP(hipStreamDestroy(branch));
  for (int *memory : {in, a, b, out}) HIP(hipFree(memory));
  HIP(hipHostFree(pinned));
  return ended(right);
}
