// Filter of 16-bit samples with 16-bit coefficients (Q15): exact sums, rounded to nearest with ties upwards, saturated.
#include <hip/hip_runtime.h>

extern "C" __global__ void fir_q15(const short* samples, const short* taps, short* output, int n, int count) {
  size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)n) return;
  long long sum = 0;
  for (int j = 0; j < count; ++j) sum += (int)samples[i + j] * (int)taps[j];
  long long rounded = (sum + 16384) >> 15;
  if (rounded > 32767) rounded = 32767;
  if (rounded < -32768) rounded = -32768;
  output[i] = (short)rounded;
}
