// printf on the device: formats, strings, a wavefront that prints in the order of its lanes.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define HIP_CHECK(c)                                                        \
  if ((c) != hipSuccess) {                                                  \
    fprintf(stderr, "HIP error: %s\n", hipGetErrorString(hipGetLastError())); \
    exit(EXIT_FAILURE);                                                     \
  }

__global__ void formats(int i, long long l, double d, const char* text) {
  printf("int %d, padded |%5d|%-5d|%05d|, hex %x %#X\n", i, i, i, i, i, i);
  printf("long %lld, unsigned %u, character %c, percent %%\n", l, 4000000000u, 'x');
  printf("double %.3f %e %g, string <%s> <%10s>\n", d, d, d, text, "right");
  printf("no arguments\n");
}

__global__ void lanes(int* printed) {
  for (unsigned turn = 0; turn < blockDim.x; turn++)
    if (turn == threadIdx.x && turn % 3 == 0) printed[turn] = printf("lane %u of %u\n", threadIdx.x, blockDim.x);
}

int main() {
  char* text;
  HIP_CHECK(hipHostMalloc(&text, 32));
  snprintf(text, 32, "from the host");
  formats<<<1, 1>>>(42, -5000000000ll, 3.14159, text);
  HIP_CHECK(hipDeviceSynchronize());
  int *printed, results[16];
  HIP_CHECK(hipMalloc(&printed, sizeof results));
  HIP_CHECK(hipMemset(printed, 0, sizeof results));
  lanes<<<1, 16>>>(printed);
  HIP_CHECK(hipMemcpy(results, printed, sizeof results, hipMemcpyDeviceToHost));
  int failed = 0;
  for (int i = 0; i < 16; i++) failed += i % 3 == 0 ? results[i] < 0 : results[i] != 0;
  printf("host: %d calls failed\n", failed);
  HIP_CHECK(hipHostFree(text));
  HIP_CHECK(hipFree(printed));
  return failed != 0;
}
