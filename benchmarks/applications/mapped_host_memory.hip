// Pinned host memory: mapped (zero copy), registered from malloc, portable and write-combined; attributes of pointers.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP(call)                                                          \
  if ((status = (call)) != hipSuccess) {                                   \
    fprintf(stderr, "line %d: %s\n", __LINE__, hipGetErrorString(status)); \
    return 1;                                                              \
  }

__global__ void squares(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * in[i];
}

int main() {
  hipError_t status;
  const int n = 4096;
  int can_map = 0;
  HIP(hipDeviceGetAttribute(&can_map, hipDeviceAttributeCanMapHostMemory, 0));
  if (!can_map) return 1;

  int *in, *out, *d_in, *d_out;
  HIP(hipHostMalloc(&in, n * sizeof(int), hipHostMallocMapped | hipHostMallocPortable));
  HIP(hipHostMalloc(&out, n * sizeof(int), hipHostMallocMapped));
  HIP(hipHostGetDevicePointer((void**)&d_in, in, 0));
  HIP(hipHostGetDevicePointer((void**)&d_out, out, 0));
  for (int i = 0; i < n; i++) in[i] = i - 2000;
  squares<<<n / 256, 256>>>(d_in, d_out, n);
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += out[i] != (i - 2000) * (i - 2000);

  std::vector<int> pageable(n + 1024);  // registered memory needs no alignment
  int* part = pageable.data() + 100;
  for (int i = 0; i < n; i++) part[i] = i;
  HIP(hipHostRegister(part, n * sizeof(int), hipHostRegisterMapped));
  int* d_part;
  HIP(hipHostGetDevicePointer((void**)&d_part, part, 0));
  squares<<<n / 128, 128>>>(d_part, d_part, n);  // in place
  HIP(hipStreamSynchronize(nullptr));
  for (int i = 0; i < n; i++) wrong += part[i] != i * i;
  HIP(hipHostUnregister(part));

  hipPointerAttribute_t pinned, device;
  int* memory;
  HIP(hipMalloc(&memory, 1000));
  HIP(hipPointerGetAttributes(&pinned, in));
  HIP(hipPointerGetAttributes(&device, memory));
  unsigned flags = 0;
  HIP(hipHostGetFlags(&flags, in));
  const bool kinds = pinned.type == hipMemoryTypeHost && device.type == hipMemoryTypeDevice && device.device == 0;
  printf("mapped: %d wrong, kinds %s, portable %s\n", wrong, kinds ? "ok" : "wrong", flags & hipHostMallocPortable ? "yes" : "no");
  HIP(hipFree(memory));
  HIP(hipHostFree(in));
  HIP(hipHostFree(out));
  return wrong == 0 && kinds ? 0 : 1;
}
