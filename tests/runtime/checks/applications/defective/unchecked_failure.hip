// An allocation fails, nobody looks at it, and the program goes on with the next step.
#include "../../program.h"
__global__ void fill(float *to) { to[threadIdx.x] = 1; }
int main() {
  float *values = nullptr, *huge = nullptr;
  HIP(hipMalloc(&values, 64 * sizeof(float)));
  (void)hipMalloc(&huge, size_t(1) << 50);  // DEFECT unchecked_error|failed_call
  fill<<<1, 64>>>(values);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(values));
  return 0;
}
