#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
template <class T> __device__ T reduce_max(T v) { for (int o = 32; o; o >>= 1) v = __hmax(v, __shfl_xor_sync(0xffffffffffffffffull, v, o)); return v; }
__global__ void k(__half* h, __half2* h2, __hip_bfloat16* b, __hip_bfloat162* b2, int* out, long long* l) {
  int i = threadIdx.x;
  h[i] = __hfma_sat(h[i], __hadd_sat(h[i], HIPRT_ONE_FP16), __hmax_nan(h[i], HIPRT_INF_FP16)) + htanh(h[i]) + hexp10(h[i]);
  h2[i] = __hfma2_sat(h2[i], __hgeu2(h2[i], h2[i]), __hcmadd(h2[i], h2[i], h2[i]));
  b[i] = __hadd_sat(b[i], HIPRT_ONE_BF16) + reduce_max(b[i]) + __float2bfloat16_rz(1.5f) + htanh(b[i]) + __ull2bfloat16_rn(3);
  b2[i] = __low2bfloat162(b2[i]);
  atomicAdd(h2, h2[i]); atomicAdd(b2, b2[i]);
  out[i] = __half2int_ru(h[i]) + __half2short_rn(h[i]) + __half2uint_rd(h[i]) + __bfloat162int_rn(b[i]) + __hbeq2(h2[i], h2[i]) + __hbltu2(b2[i], b2[i]) + __hneu(h[i], h[i]);
  l[i] = __half2ll_rn(reduce_max(h[i]));
  if (__hbgt2(__hisnan2(h2[i]), h2[i])) out[0] = __half2char_rz(h[i]);
}
