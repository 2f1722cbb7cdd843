// One workgroup of 256 per compute unit; all read the same COUNT elements `passes` times, about 32 loads in flight.
#include <hip/hip_runtime.h>
#define LOADS (COUNT / 256)
extern "C" __global__ void shared_reads(const double* in, double* out, int passes, int zero) {
  double sum = 0;
  in += threadIdx.x;
#pragma unroll(LOADS >= 32 ? 1 : 32 / LOADS)
  for (int pass = 0; pass < passes; pass++) {
    in += zero;  // read again
#pragma unroll(LOADS >= 64 ? 32 : LOADS)
    for (int i = 0; i < COUNT; i += 256) sum += in[i];
    sum *= 1.3;
  }
  if (sum == 1233.0) out[threadIdx.x] = sum;
}
