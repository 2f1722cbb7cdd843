#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
namespace std { template <class T, class U> struct is_same { static constexpr bool value = false; }; template <class T> struct is_same<T, T> { static constexpr bool value = true; }; }
template <typename T> __device__ __forceinline__ T relu(T x) { return x > T(0) ? x : T(0); }
extern "C" __global__ void bias_relu(float* x, const __hip_bfloat16* b, int rows, int cols, double* acc) {
  extern __shared__ float lds[];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x) { lds[threadIdx.x] = relu(x[i] + (float)b[i % cols]); x[i] = std::is_same<int, int>::value ? lds[threadIdx.x] : 0; unsafeAtomicAdd(acc, (double)x[i]); }
  __syncthreads(); unsigned long long m = __ballot(threadIdx.x & 1); if (__popcll(m) == 3) x[0] = __uint_as_float(__float_as_uint(x[0]) ^ __brev(3u)); x[1] = __hip_ds_bpermutef(0, 1.f); x[2] = atan2f(x[0], 1.f) + fmodf(x[1], 3.f) + copysignf(1.f, x[3]) + isnan(x[4]) + round(x[5]) + pow(x[6], 2) + abs(x[7]) + abs(-3) + min(3, 4) + fabs(2.0);
}
