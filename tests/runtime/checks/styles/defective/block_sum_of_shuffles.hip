// Sum over a workgroup from shuffles of each wavefront. The partial sums are read without a barrier.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <numeric>
#include <vector>
#define CHECK(x) do { auto e = (x); if (e != hipSuccess) { fprintf(stderr, "%s\n", hipGetErrorString(e)); return 1; } } while (0)

template <class T, class Op>
__device__ T reduce_wavefront(T value, Op op) {
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) value = op(value, __shfl_down(value, offset));
  return value;
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b; }
};

__global__ void sum(const int *__restrict__ in, int *__restrict__ out, int count) {
  __shared__ int partial[16];
  const int lane = threadIdx.x % warpSize, wavefront = threadIdx.x / warpSize;
  int value = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) value += in[i];
  value = reduce_wavefront(value, Plus{});
  if (lane == 0) partial[wavefront] = value;  // DEFECT lds_race
  if (wavefront == 0) {
    value = lane < blockDim.x / warpSize ? partial[lane] : 0;  // DEFECT lds_race|lds_uninitialised
    value = reduce_wavefront(value, Plus{});
    if (lane == 0) *out = value;
  }
}

int main() {
  std::vector<int> numbers(5000);
  std::iota(numbers.begin(), numbers.end(), 0);
  int *in, *out, result;
  CHECK(hipMalloc((void **)&in, numbers.size() * sizeof(int)));
  CHECK(hipMalloc((void **)&out, sizeof(int)));
  CHECK(hipMemcpyHtoD((hipDeviceptr_t)in, numbers.data(), numbers.size() * sizeof(int)));
  hipLaunchKernelGGL(sum, dim3(1), dim3(512), 0, 0, in, out, (int)numbers.size());
  CHECK(hipMemcpyDtoH(&result, (hipDeviceptr_t)out, sizeof(int)));
  printf("%d\n", result);
  CHECK(hipFree(in));
  CHECK(hipFree(out));
}
