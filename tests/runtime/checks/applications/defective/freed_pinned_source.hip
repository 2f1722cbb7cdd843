// A pinned buffer is unregistered and freed, and a later iteration copies from it.
#include "../../program.h"
int main() {
  const int n = 4096;
  int *memory, *pinned;
  HIP(hipMalloc(&memory, n * sizeof(int)));
  HIP(hipHostMalloc(&pinned, n * sizeof(int)));
  for (int i = 0; i < n; i++) pinned[i] = i;
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  HIP(hipMemcpyAsync(memory, pinned, n * sizeof(int), hipMemcpyHostToDevice, stream));
  HIP(hipStreamSynchronize(stream));
  HIP(hipHostFree(pinned));
  (void)hipMemcpyAsync(memory, pinned, n * sizeof(int), hipMemcpyHostToDevice, stream);  // DEFECT use_after_free
  (void)hipStreamSynchronize(stream);
  (void)hipStreamDestroy(stream);
  (void)hipFree(memory);
  return 0;
}
