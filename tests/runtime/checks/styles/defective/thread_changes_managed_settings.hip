// A second host thread changes managed settings while a kernel of the main thread reads them.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <thread>

struct Settings {
  float gain[64];
  int version;
};

__global__ void amplify(const Settings *settings, float *signal) {
  signal[blockIdx.x * 64 + threadIdx.x] *= settings->gain[threadIdx.x];
}

int main() {
  Settings *settings;
  float *signal;
  hipStream_t stream;
  if (hipMallocManaged((void **)&settings, sizeof *settings, hipMemAttachGlobal) != hipSuccess) return 1;
  if (hipMalloc(&signal, 64 * 64 * sizeof(float)) != hipSuccess || hipStreamCreate(&stream) != hipSuccess) return 1;
  for (float &gain : settings->gain) gain = 2;
  settings->version = 1;
  if (hipMemsetAsync(signal, 0, 64 * 64 * sizeof(float), stream) != hipSuccess) return 1;
  amplify<<<64, 64, 0, stream>>>(settings, signal);
  std::thread user([settings] {
    settings->gain[5] = 3;  // DEFECT host_race
  });
  user.join();
  if (hipStreamSynchronize(stream) != hipSuccess) return 1;
  std::printf("%d\n", settings->version);
  return hipStreamDestroy(stream) != hipSuccess || hipFree(signal) != hipSuccess || hipFree(settings) != hipSuccess;
}
