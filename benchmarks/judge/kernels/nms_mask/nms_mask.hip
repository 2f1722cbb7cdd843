// Bit masks for non-maximum suppression: bit j of row i is set if box j follows box i and their intersection is more than `percent`
// per cent of their union. Boxes are (left, top, right, bottom) with integer coordinates; inverted boxes are empty.
#include <hip/hip_runtime.h>

__device__ long long area_of(int left, int top, int right, int bottom) {
  return (long long)max(right - left, 0) * max(bottom - top, 0);
}

extern "C" __global__ void nms_mask(const int* boxes, unsigned long long* mask, int n, int percent) {
  __shared__ int others[64][4];
  int lane = threadIdx.x;
  int words = gridDim.x;
  int column = blockIdx.x * 64 + lane;
  for (int part = 0; part < 4; ++part) others[lane][part] = column < n ? boxes[(size_t)column * 4 + part] : 0;
  __syncthreads();
  int row = blockIdx.y * 64 + lane;
  if (row >= n) return;
  const int* box = boxes + (size_t)row * 4;
  int left = box[0], top = box[1], right = box[2], bottom = box[3];
  long long area = area_of(left, top, right, bottom);
  unsigned long long bits = 0;
  int count = min(64, n - (int)blockIdx.x * 64);
  for (int j = 0; j < count; ++j) {
    if ((int)blockIdx.x * 64 + j <= row) continue;
    long long common = area_of(max(left, others[j][0]), max(top, others[j][1]), min(right, others[j][2]), min(bottom, others[j][3]));
    long long both = area + area_of(others[j][0], others[j][1], others[j][2], others[j][3]) - common;
    if (common * 100 > both * percent) bits |= 1ull << j;
  }
  mask[(size_t)row * words + blockIdx.x] = bits;
}
