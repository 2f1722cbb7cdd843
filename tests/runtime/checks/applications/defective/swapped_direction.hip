// Asynchronous download that is declared as an upload.
#include "../../program.h"
int main() {
  const int n = 256;
  int *memory = device(std::vector<int>(n, 3)), *pinned;
  HIP(hipHostMalloc(&pinned, n * sizeof(int)));
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  (void)hipMemcpyAsync(pinned, memory, n * sizeof(int), hipMemcpyHostToDevice, stream);  // DEFECT wrong_direction
  HIP(hipStreamSynchronize(stream));
  HIP(hipStreamDestroy(stream));
  HIP(hipHostFree(pinned));
  HIP(hipFree(memory));
  return 0;
}
