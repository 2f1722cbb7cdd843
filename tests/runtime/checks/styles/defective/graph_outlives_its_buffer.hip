// An instantiated graph is launched again after the buffer that its copy reads was freed.
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void step(float *p) { p[threadIdx.x] += 1; }

int main() {
  float *work, *archive;
  hipStream_t stream;
  hipGraph_t graph;
  hipGraphExec_t executable;
  bool ok = hipMalloc(&work, 256 * sizeof(float)) == hipSuccess && hipMalloc(&archive, 256 * sizeof(float)) == hipSuccess &&
            hipMemset(work, 0, 256 * sizeof(float)) == hipSuccess && hipStreamCreate(&stream) == hipSuccess &&
            hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal) == hipSuccess;
  if (!ok) return 1;
  step<<<1, 256, 0, stream>>>(work);  // DEFECT use_after_free
  ok = hipMemcpyAsync(archive, work, 256 * sizeof(float), hipMemcpyDeviceToDevice, stream) == hipSuccess &&
       hipStreamEndCapture(stream, &graph) == hipSuccess &&
       hipGraphInstantiateWithFlags(&executable, graph, 0) == hipSuccess &&
       hipGraphLaunch(executable, stream) == hipSuccess && hipStreamSynchronize(stream) == hipSuccess;
  if (!ok) return 1;
  (void)hipFree(archive);
  (void)hipGraphLaunch(executable, stream);  // DEFECT use_after_free
  (void)hipStreamSynchronize(stream);
  (void)hipGraphExecDestroy(executable);
  (void)hipGraphDestroy(graph);
  (void)hipStreamDestroy(stream);
  (void)hipFree(work);
  std::puts("ended");
}
