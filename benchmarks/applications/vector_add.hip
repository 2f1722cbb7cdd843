// Vector addition: the first program of every course.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_CHECK(call)                                                                               \
  do {                                                                                                \
    hipError_t status_ = (call);                                                                      \
    if (status_ != hipSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status_)); \
      std::exit(EXIT_FAILURE);                                                                        \
    }                                                                                                 \
  } while (0)

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  const int n = 100003;  // not a multiple of the block size
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; i++) {
    a[i] = 0.5f * i;
    b[i] = 3.0f - i;
  }
  float *d_a, *d_b, *d_c;
  HIP_CHECK(hipMalloc(&d_a, n * sizeof(float)));
  HIP_CHECK(hipMalloc(&d_b, n * sizeof(float)));
  HIP_CHECK(hipMalloc(&d_c, n * sizeof(float)));
  HIP_CHECK(hipMemcpy(d_a, a.data(), n * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(d_b, b.data(), n * sizeof(float), hipMemcpyHostToDevice));

  vector_add<<<(n + 255) / 256, 256>>>(d_a, d_b, d_c, n);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(c.data(), d_c, n * sizeof(float), hipMemcpyDeviceToHost));

  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += c[i] != a[i] + b[i];
  std::printf("vector_add: %d elements, %d wrong, last %.1f\n", n, wrong, c[n - 1]);
  HIP_CHECK(hipFree(d_a));
  HIP_CHECK(hipFree(d_b));
  HIP_CHECK(hipFree(d_c));
  return wrong != 0;
}
