// 16-byte loads at addresses of 4-byte alignment, rows with a pitch, and the last byte of an allocation.
#include "../../program.h"
#include <cstring>
__global__ void gather(const float *in, float *out, const char *text, int length) {
  float4 value;
  __builtin_memcpy(&value, in + threadIdx.x + 1, sizeof value);
  out[threadIdx.x] = value.x + value.y + value.z + value.w + (text[length - 1] == 'z');
}
int main() {
  float *in = device(std::vector<float>(68, 1)), *out;
  std::vector<char> letters(131, 'a');
  letters.back() = 'z';
  char *text = device(letters);
  size_t pitch;
  HIP(hipMallocPitch(reinterpret_cast<void **>(&out), &pitch, 64 * sizeof(float), 3));
  HIP(hipMemset2D(out, pitch, 0, 64 * sizeof(float), 3));
  gather<<<1, 64>>>(in, out, text, 131);
  float result[3][64];
  HIP(hipMemcpy2D(result, sizeof result[0], out, pitch, sizeof result[0], 3, hipMemcpyDeviceToHost));
  bool right = result[0][63] == 5 && result[2][0] == 0;
  HIP(hipFree(in));
  HIP(hipFree(out));
  HIP(hipFree(text));
  return ended(right);
}
