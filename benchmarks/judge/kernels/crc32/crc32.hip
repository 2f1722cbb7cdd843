// CRC-32 (polynomial 0xEDB88320) of messages of different length, one message per work-item, with a table in LDS.
#include <hip/hip_runtime.h>

extern "C" __global__ void crc32(const unsigned char* messages, const int* lengths, unsigned* sums, int rows, int width) {
  __shared__ unsigned table[256];
  unsigned entry = threadIdx.x;
  for (int bit = 0; bit < 8; ++bit) entry = entry & 1u ? (entry >> 1) ^ 0xEDB88320u : entry >> 1;
  table[threadIdx.x] = entry;
  __syncthreads();
  int row = blockIdx.x * 256 + threadIdx.x;
  if (row >= rows) return;
  const unsigned char* message = messages + (size_t)row * width;
  int length = lengths[row];
  unsigned sum = 0xFFFFFFFFu;
  for (int i = 0; i < length; ++i) sum = (sum >> 8) ^ table[(sum ^ message[i]) & 255u];
  sums[row] = ~sum;
}
