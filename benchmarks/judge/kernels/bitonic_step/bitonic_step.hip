// One step of a bitonic sort of keys, in place: pairs at a distance of `stride` are ordered, in ascending blocks of `size`.
#include <hip/hip_runtime.h>

extern "C" __global__ void bitonic_step(unsigned* keys, int log_stride, int log_size, int pairs) {
  size_t pair = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= (size_t)pairs) return;
  size_t stride = (size_t)1 << log_stride;
  size_t low = ((pair >> log_stride) << (log_stride + 1)) | (pair & (stride - 1));
  size_t high = low + stride;
  bool ascending = ((low >> log_size) & 1) == 0;
  unsigned a = keys[low], b = keys[high];
  if ((a > b) == ascending) {
    keys[low] = b;
    keys[high] = a;
  }
}
