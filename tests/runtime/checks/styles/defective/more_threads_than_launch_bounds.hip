// A kernel compiled for 128 work-items is launched with a configuration for 512, and the result is not looked at.
#include <hip/hip_runtime.h>
#include <cstdio>

template <int Threads>
struct Policy {
  static constexpr int threads = Threads;
};
using Small = Policy<128>;
using Large = Policy<512>;

template <class P>
__global__ void __launch_bounds__(P::threads) negate(int *p) {
  int i = blockIdx.x * P::threads + threadIdx.x;
  p[i] = -p[i];
}

template <class P, class Kernel, class... Arguments>
void launch(Kernel kernel, int count, Arguments... arguments) {
  hipLaunchKernelGGL(kernel, dim3(count / P::threads), dim3(P::threads), 0, 0, arguments...);  // DEFECT failed_launch|bad_geometry
}

int main() {
  int *p;
  if (hipMalloc(&p, 4096) != hipSuccess || hipMemset(p, 0, 4096) != hipSuccess) return 1;
  launch<Large>(negate<Small>, 1024, p);
  (void)hipDeviceSynchronize();
  (void)hipFree(p);
  std::puts("ended");
}
