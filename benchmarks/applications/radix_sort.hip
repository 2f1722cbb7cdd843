// Least-significant-digit radix sort of keys with values: per-block histograms, scan, stable scatter by ballots.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

static int line_of_failure = 0;
#define TRY(call)                     \
  if ((call) != hipSuccess) {         \
    line_of_failure = __LINE__;       \
    return false;                     \
  }

constexpr int BITS = 4, DIGITS = 1 << BITS, BLOCK = 64;  // a block is one wavefront

__global__ void count_digits(const uint32_t* keys, int n, int shift, int* counts) {
  __shared__ int local[DIGITS];
  if (threadIdx.x < DIGITS) local[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) atomicAdd(&local[keys[i] >> shift & (DIGITS - 1)], 1);
  __syncthreads();
  if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

__global__ void exclusive_scan(int* counts, int n) {  // one block: each thread sums a contiguous part
  __shared__ int part[1024];
  const int length = (n + blockDim.x - 1) / blockDim.x, first = min(int(threadIdx.x) * length, n), end = min(first + length, n);
  int sum = 0;
  for (int i = first; i < end; i++) sum += counts[i];
  part[threadIdx.x] = sum;
  for (unsigned offset = 1; offset < blockDim.x; offset *= 2) {
    __syncthreads();
    const int add = threadIdx.x >= offset ? part[threadIdx.x - offset] : 0;
    __syncthreads();
    part[threadIdx.x] += add;
  }
  __syncthreads();
  int running = threadIdx.x ? part[threadIdx.x - 1] : 0;
  for (int i = first; i < end; i++) {
    const int count = counts[i];
    counts[i] = running;
    running += count;
  }
}

__global__ void scatter(const uint32_t* keys, const int* values, uint32_t* out_keys, int* out_values, int n, int shift,
                        const int* offsets) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const bool active = i < n;
  const uint32_t key = active ? keys[i] : 0;
  const uint32_t digit = key >> shift & (DIGITS - 1);
  uint64_t same = __ballot(active);
  for (int bit = 0; bit < BITS; bit++) {
    const uint64_t set = __ballot(digit >> bit & 1);
    same &= digit >> bit & 1 ? set : ~set;
  }
  if (!active) return;
  const int rank = __popcll(same & ((uint64_t(1) << threadIdx.x) - 1));
  const int at = offsets[digit * gridDim.x + blockIdx.x] + rank;
  out_keys[at] = key;
  out_values[at] = values[i];
}

static bool sort(std::vector<uint32_t>& keys, std::vector<int>& values) {
  const int n = int(keys.size()), blocks = (n + BLOCK - 1) / BLOCK;
  uint32_t *k0, *k1;
  int *v0, *v1, *counts;
  TRY(hipMalloc(&k0, n * sizeof(uint32_t)));
  TRY(hipMalloc(&k1, n * sizeof(uint32_t)));
  TRY(hipMalloc(&v0, n * sizeof(int)));
  TRY(hipMalloc(&v1, n * sizeof(int)));
  TRY(hipMalloc(&counts, blocks * DIGITS * sizeof(int)));
  TRY(hipMemcpy(k0, keys.data(), n * sizeof(uint32_t), hipMemcpyHostToDevice));
  TRY(hipMemcpy(v0, values.data(), n * sizeof(int), hipMemcpyHostToDevice));
  for (int shift = 0; shift < 32; shift += BITS) {
    count_digits<<<blocks, BLOCK>>>(k0, n, shift, counts);
    exclusive_scan<<<1, 1024>>>(counts, blocks * DIGITS);
    scatter<<<blocks, BLOCK>>>(k0, v0, k1, v1, n, shift, counts);
    std::swap(k0, k1);
    std::swap(v0, v1);
  }
  TRY(hipGetLastError());
  TRY(hipMemcpy(keys.data(), k0, n * sizeof(uint32_t), hipMemcpyDeviceToHost));
  TRY(hipMemcpy(values.data(), v0, n * sizeof(int), hipMemcpyDeviceToHost));
  for (void* memory : {(void*)k0, (void*)k1, (void*)v0, (void*)v1, (void*)counts}) TRY(hipFree(memory));
  return true;
}

int main() {
  const int n = 10000;
  std::mt19937 random(5);
  std::vector<uint32_t> keys(n);
  std::vector<int> values(n), order(n);
  for (auto& key : keys) key = uint32_t(random()) & 0xf00ff0ffu;  // equal keys occur: the sort must be stable
  keys[7] = keys[6000] = keys[9999];
  std::iota(values.begin(), values.end(), 0);
  order = values;
  const std::vector<uint32_t> before = keys;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return before[a] < before[b]; });
  if (!sort(keys, values)) {
    fprintf(stderr, "HIP call in line %d failed\n", line_of_failure);
    return 1;
  }
  const bool right = values == order && std::is_sorted(keys.begin(), keys.end());
  printf("radix sort: %d pairs, smallest key %u, %s\n", n, keys[0], right ? "stable order" : "WRONG ORDER");
  return right ? 0 : 1;
}
