// A callback of the compute stream adds up a pinned buffer that the copy stream still fills.
#include <hip/hip_runtime.h>
#include <cstdio>

constexpr int kCount = 1 << 12;
struct Report {
  int *values;
  long long sum;
};

__global__ void ramp(int *p) { p[blockIdx.x * blockDim.x + threadIdx.x] = int(blockIdx.x); }
__global__ void nothing() {}

static void accumulate(hipStream_t, hipError_t, void *user) {
  auto *report = static_cast<Report *>(user);
  for (int i = 0; i < kCount; ++i) report->sum += report->values[i];  // DEFECT host_race
}

int main() {
  hipStream_t copy, compute;
  if (hipStreamCreateWithFlags(&copy, hipStreamNonBlocking) || hipStreamCreateWithFlags(&compute, hipStreamNonBlocking)) return 1;
  int *device = nullptr;
  Report report{nullptr, 0};
  if (hipMalloc(&device, kCount * sizeof(int)) || hipHostMalloc((void **)&report.values, kCount * sizeof(int), hipHostMallocDefault)) return 1;
  ramp<<<kCount / 256, 256, 0, copy>>>(device);
  if (hipMemcpyAsync(report.values, device, kCount * sizeof(int), hipMemcpyDeviceToHost, copy)) return 1;
  nothing<<<1, 64, 0, compute>>>();
  if (hipStreamAddCallback(compute, accumulate, &report, 0)) return 1;
  if (hipStreamSynchronize(compute) || hipStreamSynchronize(copy)) return 1;
  std::printf("%lld\n", report.sum);
  return hipFree(device) || hipHostFree(report.values) || hipStreamDestroy(copy) || hipStreamDestroy(compute);
}
