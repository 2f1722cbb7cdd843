// Work-efficient exclusive scan (up-sweep and down-sweep in LDS) with a second level for the sums of blocks.
#include <hip/hip_runtime.h>

#include <iostream>
#include <vector>

#define HIP_CALL(expression)                                                                                        \
  if (auto status = (expression); status != hipSuccess) {                                                           \
    std::cerr << __FILE__ << ':' << __LINE__ << ' ' << hipGetErrorName(status) << ": " << hipGetErrorString(status) \
              << std::endl;                                                                                         \
    return 1;                                                                                                       \
  }

constexpr unsigned BLOCK = 128, ITEMS = 2 * BLOCK;

__global__ void scan_blocks(const unsigned* in, unsigned* out, unsigned* sums, unsigned n) {
  __shared__ unsigned s[ITEMS];
  const unsigned t = threadIdx.x, first = blockIdx.x * ITEMS;
  s[2 * t] = first + 2 * t < n ? in[first + 2 * t] : 0;
  s[2 * t + 1] = first + 2 * t + 1 < n ? in[first + 2 * t + 1] : 0;
  unsigned stride = 1;
  for (unsigned d = BLOCK; d > 0; d >>= 1, stride *= 2) {
    __syncthreads();
    if (t < d) s[stride * (2 * t + 2) - 1] += s[stride * (2 * t + 1) - 1];
  }
  __syncthreads();
  if (t == 0) {
    if (sums) sums[blockIdx.x] = s[ITEMS - 1];
    s[ITEMS - 1] = 0;
  }
  for (unsigned d = 1; d <= BLOCK; d *= 2) {
    stride >>= 1;
    __syncthreads();
    if (t < d) {
      const unsigned left = stride * (2 * t + 1) - 1, right = stride * (2 * t + 2) - 1;
      const unsigned value = s[left];
      s[left] = s[right];
      s[right] += value;
    }
  }
  __syncthreads();
  if (first + 2 * t < n) out[first + 2 * t] = s[2 * t];
  if (first + 2 * t + 1 < n) out[first + 2 * t + 1] = s[2 * t + 1];
}

__global__ void add_offsets(unsigned* out, const unsigned* offsets, unsigned n) {
  const unsigned i = blockIdx.x * ITEMS + threadIdx.x;
  if (i < n) out[i] += offsets[blockIdx.x];
  if (i + BLOCK < n) out[i + BLOCK] += offsets[blockIdx.x];
}

int main() {
  const unsigned n = 40000, blocks = (n + ITEMS - 1) / ITEMS;  // 157 sums fit in one block of the second level
  std::vector<unsigned> in(n), out(n);
  for (unsigned i = 0; i < n; i++) in[i] = (i * i) % 13;
  unsigned *d_in, *d_out, *d_sums;
  HIP_CALL(hipMalloc(&d_in, n * sizeof(unsigned)));
  HIP_CALL(hipMalloc(&d_out, n * sizeof(unsigned)));
  HIP_CALL(hipMalloc(&d_sums, blocks * sizeof(unsigned)));
  HIP_CALL(hipMemcpy(d_in, in.data(), n * sizeof(unsigned), hipMemcpyHostToDevice));
  scan_blocks<<<blocks, BLOCK>>>(d_in, d_out, d_sums, n);
  scan_blocks<<<1, BLOCK>>>(d_sums, d_sums, nullptr, blocks);  // in place
  add_offsets<<<blocks, BLOCK>>>(d_out, d_sums, n);
  HIP_CALL(hipGetLastError());
  HIP_CALL(hipMemcpy(out.data(), d_out, n * sizeof(unsigned), hipMemcpyDeviceToHost));
  unsigned sum = 0, wrong = 0;
  for (unsigned i = 0; i < n; sum += in[i++]) wrong += out[i] != sum;
  std::cout << "exclusive scan of " << n << ": total " << sum << ", wrong " << wrong << std::endl;
  HIP_CALL(hipFree(d_in));
  HIP_CALL(hipFree(d_out));
  HIP_CALL(hipFree(d_sums));
  return wrong == 0 ? 0 : 1;
}
