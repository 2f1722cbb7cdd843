// Result in mapped host memory, read after a query of the wrong stream.
#include "../../program.h"
__global__ void maximum(const int *in, int n, int *result) {
  int best = in[threadIdx.x];
  for (int i = threadIdx.x; i < n; i += 64) best = max(best, in[i]);
  for (int d = 32; d; d /= 2) best = max(best, __shfl_xor(best, d));
  if (threadIdx.x == 0) *result = best;  // DEFECT host_race
}
int main() {
  const int n = 1 << 14;
  std::vector<int> values(n, 3);
  values[77] = 9;
  int *in = device(values), *result, *mapped;
  HIP(hipHostMalloc(&result, sizeof(int), hipHostMallocMapped));
  *result = 0;
  HIP(hipHostGetDevicePointer(reinterpret_cast<void **>(&mapped), result, 0));
  hipStream_t work, other;
  HIP(hipStreamCreateWithFlags(&work, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  maximum<<<1, 64, 0, work>>>(in, n, mapped);  // DEFECT host_race
  HIP(hipStreamSynchronize(other));
  int seen = *result;  // DEFECT host_race
  std::fprintf(stderr, "%d\n", seen);
  HIP(hipStreamSynchronize(work));
  HIP(hipStreamDestroy(work));
  HIP(hipStreamDestroy(other));
  HIP(hipHostFree(result));
  HIP(hipFree(in));
  return ended(true);
}
