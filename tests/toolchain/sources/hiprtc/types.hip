typedef unsigned int my_uint;
template <typename T> struct Ops { static __device__ T add(T a, T b) { return a + b; } };
template <typename T, typename U> __device__ typename __hip_internal::enable_if<__hip_internal::is_same<T, U>::value, int>::type same() { return 1; }
extern "C" __global__ __launch_bounds__(256) void kernel(const __half* h, half2* p, hip_bfloat16* b, uint32_t* u, int64_t* l, uint8_t* c, float4* v) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  __shared__ float s[256];
  assert(i >= 0);
  static_assert(sizeof(int64_t) == 8 && sizeof(uint16_t) == 2 && sizeof(uintptr_t) == 8, "");
  s[threadIdx.x] = __half2float(h[i]);
  __syncthreads();
  p[i] = __hadd2(p[i], __float2half2_rn(s[255 - threadIdx.x]));
  b[i] = hip_bfloat16(sinf(s[0]) + expf(s[1]) + __expf(2.f) + rsqrtf(s[2]) + powf(s[3], 2.f) + fabs(s[4]) + max(1, 2) + min(1.f, s[1]));
  atomicAdd(&u[0], (uint32_t)same<int, int>());
  l[i] = (int64_t)clock64();
  c[i] = (uint8_t)Ops<int>::add(1, 2);
  v[i] = make_float4(1, 2, 3, 4);
  float w = __shfl_down(s[0], 1) + __shfl_xor(s[1], 2);
  if (w > 1e30f) printf("%f\n", w);
}
