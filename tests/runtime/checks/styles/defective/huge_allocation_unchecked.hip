// An allocation that is far too large fails; the program launches the kernel with the null pointer.
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void fill(double *p, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) p[i] = 1;  // DEFECT out_of_bounds|memory_fault
}

int main() {
  double *p = nullptr;
  size_t n = size_t(1) << 50;
  hipMalloc(&p, n * sizeof(double));  // DEFECT unchecked_error|failed_call
  fill<<<4, 256>>>(p, n);
  hipDeviceSynchronize();
  std::puts("ended");
  std::fflush(stdout);
}
