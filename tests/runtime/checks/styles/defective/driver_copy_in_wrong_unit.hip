// hipMemcpyDtoDAsync is given the size of a double array for a float array.
#include <hip/hip_runtime.h>
#include <cstdio>

int main() {
  constexpr size_t count = 1000;
  hipDevice_t device;
  hipCtx_t unused = nullptr;
  (void)unused;
  if (hipInit(0) != hipSuccess || hipDeviceGet(&device, 0) != hipSuccess) return 1;
  void *from = nullptr, *to = nullptr;
  if (hipMalloc(&from, count * sizeof(double)) != hipSuccess || hipMalloc(&to, count * sizeof(float)) != hipSuccess) return 1;
  if (hipMemsetD32((hipDeviceptr_t)from, 7, count * 2) != hipSuccess) return 1;
  hipStream_t stream;
  if (hipStreamCreate(&stream) != hipSuccess) return 1;
  (void)hipMemcpyDtoDAsync((hipDeviceptr_t)to, (hipDeviceptr_t)from, count * sizeof(double), stream);  // DEFECT copy_past_end
  (void)hipStreamSynchronize(stream);
  (void)hipStreamDestroy(stream);
  (void)hipFree(from);
  (void)hipFree(to);
  std::puts("ended");
}
