// Single-pass inclusive scan with decoupled look-back: state and sum of a tile are one 64-bit word.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(hipError_t error) {
  if (error != hipSuccess) {
    std::fprintf(stderr, "%s\n", hipGetErrorString(error));
    std::exit(1);
  }
}

constexpr int THREADS = 256, ITEMS = 4, TILE = THREADS * ITEMS;
enum State : uint64_t { Empty = 0, Aggregate = 1, Prefix = 2 };

__device__ uint32_t look_back(uint64_t* status, int tile) {
  uint32_t sum = 0;
  for (int before = tile - 1;; before--) {
    uint64_t word;
    do {
      word = __hip_atomic_load(&status[before], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
    } while (word >> 32 == Empty);
    sum += uint32_t(word);
    if (word >> 32 == Prefix) return sum;
  }
}

__global__ void scan(const uint32_t* in, uint32_t* out, int n, uint64_t* status, unsigned* next_tile) {
  __shared__ uint32_t part[THREADS];
  __shared__ int tile;
  __shared__ uint32_t before;
  // Tiles are numbered in the order in which workgroups start, so that a tile never waits for one that has not started.
  if (threadIdx.x == 0) tile = atomicAdd(next_tile, 1u);
  __syncthreads();
  const int first = tile * TILE + threadIdx.x * ITEMS;
  uint32_t item[ITEMS], sum = 0;
  for (int k = 0; k < ITEMS; k++) item[k] = sum += first + k < n ? in[first + k] : 0;
  part[threadIdx.x] = sum;
  for (int offset = 1; offset < THREADS; offset *= 2) {
    __syncthreads();
    const uint32_t add = threadIdx.x >= unsigned(offset) ? part[threadIdx.x - offset] : 0;
    __syncthreads();
    part[threadIdx.x] += add;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint64_t total = part[THREADS - 1];
    uint32_t prefix = 0;
    if (tile > 0) {
      __hip_atomic_store(&status[tile], uint64_t(Aggregate) << 32 | total, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
      prefix = look_back(status, tile);
    }
    const uint64_t word = uint64_t(Prefix) << 32 | uint32_t(prefix + total);
    __hip_atomic_store(&status[tile], word, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    before = prefix;
  }
  __syncthreads();
  const uint32_t offset = before + part[threadIdx.x] - sum;
  for (int k = 0; k < ITEMS; k++)
    if (first + k < n) out[first + k] = offset + item[k];
}

int main() {
  const int n = 60001, tiles = (n + TILE - 1) / TILE;
  std::vector<uint32_t> in(n), out(n);
  for (int i = 0; i < n; i++) in[i] = uint32_t(i) * 2654435761u >> 20;
  uint32_t *d_in, *d_out;
  uint64_t* d_status;
  unsigned* d_next;
  must(hipMalloc((void**)&d_in, n * sizeof(uint32_t)));
  must(hipMalloc((void**)&d_out, n * sizeof(uint32_t)));
  must(hipMalloc((void**)&d_status, tiles * sizeof(uint64_t)));
  must(hipMalloc((void**)&d_next, sizeof(unsigned)));
  must(hipMemcpy(d_in, in.data(), n * sizeof(uint32_t), hipMemcpyHostToDevice));
  must(hipMemset(d_status, 0, tiles * sizeof(uint64_t)));
  must(hipMemset(d_next, 0, sizeof(unsigned)));
  scan<<<tiles, THREADS>>>(d_in, d_out, n, d_status, d_next);
  must(hipGetLastError());
  must(hipMemcpy(out.data(), d_out, n * sizeof(uint32_t), hipMemcpyDeviceToHost));
  uint32_t sum = 0;
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += out[i] != (sum += in[i]);
  std::printf("look-back scan: %d elements in %d tiles, total %u, %d wrong\n", n, tiles, sum, wrong);
  must(hipFree(d_in));
  must(hipFree(d_out));
  must(hipFree(d_status));
  must(hipFree(d_next));
  return wrong ? 1 : 0;
}
