// Both branches of a divergent condition have their own barrier.
#include <hip/hip_runtime.h>
#include <cstdio>

template <class Functor>
__device__ void phase(int *tile, Functor f) {
  tile[threadIdx.x] = f(int(threadIdx.x));
}

__global__ void split(int *out, int border) {
  __shared__ int tile[128];
  if (int(threadIdx.x) < border) {
    phase(tile, [](int i) { return 2 * i; });
    __syncthreads();  // DEFECT divergent_barrier
    out[threadIdx.x] = tile[threadIdx.x] + 1;
  } else {
    phase(tile, [](int i) { return i * i; });
    __syncthreads();  // DEFECT divergent_barrier
    out[threadIdx.x] = tile[threadIdx.x] - 1;
  }
}

int main() {
  int *out;
  if (hipMalloc(&out, 128 * sizeof(int)) != hipSuccess) return 1;
  split<<<1, 128>>>(out, 40);
  (void)hipDeviceSynchronize();
  (void)hipFree(out);
  std::puts("ended");
}
