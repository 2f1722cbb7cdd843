// Single-pass prefix sum: tile states with a status word, release and acquire at agent scope, look-back by a wavefront.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <numeric>
#include <vector>

enum class Status : unsigned { empty, partial, complete };

struct TileState {
  unsigned status;
  unsigned partial, inclusive;

  __device__ void publish(Status value) {
    __hip_atomic_store(&status, unsigned(value), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
  __device__ Status wait() const {
    unsigned value;
    while ((value = __hip_atomic_load(&status, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) == 0) __builtin_amdgcn_s_sleep(1);
    return Status(value);
  }
};

template <int Block, int Items>
__global__ void scan(const unsigned *in, unsigned *out, TileState *states, unsigned *ticket) {
  __shared__ unsigned sums[Block], prefix, tile;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();
  const unsigned base = tile * Block * Items + threadIdx.x * Items;
  unsigned items[Items], sum = 0;
#pragma unroll
  for (int k = 0; k < Items; ++k) items[k] = sum += in[base + k];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int offset = 1; offset < Block; offset *= 2) {
    unsigned other = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    const unsigned total = sums[Block - 1];
    TileState &mine = states[tile];
    if (tile == 0) {
      prefix = 0;
      mine.inclusive = total;
      mine.publish(Status::complete);
    } else {
      mine.partial = total;
      mine.publish(Status::partial);
      unsigned before = 0;
      for (unsigned back = tile; back-- > 0;) {
        if (states[back].wait() == Status::complete) {
          before += states[back].inclusive;
          break;
        }
        before += states[back].partial;
      }
      prefix = before;
      mine.inclusive = before + total;
      mine.publish(Status::complete);
    }
  }
  __syncthreads();
  const unsigned before = prefix + (threadIdx.x ? sums[threadIdx.x - 1] : 0);
#pragma unroll
  for (int k = 0; k < Items; ++k) out[base + k] = before + items[k];
}

int main() {
  constexpr unsigned tiles = 9, block = 128, items = 4, n = tiles * block * items;
  std::vector<unsigned> host(n), expected(n);
  for (unsigned i = 0; i < n; i++) host[i] = i % 11;
  std::partial_sum(host.begin(), host.end(), expected.begin());
  unsigned *in, *out, *ticket;
  TileState *states;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4) || hipMalloc(&ticket, 4) || hipMalloc(&states, tiles * sizeof(TileState))) return 1;
  if (hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice) || hipMemset(ticket, 0, 4) || hipMemset(states, 0, tiles * sizeof(TileState))) return 1;
  scan<block, items><<<tiles, block>>>(in, out, states, ticket);
  if (hipMemcpy(host.data(), out, n * 4, hipMemcpyDeviceToHost)) return 1;
  if (hipFree(in) || hipFree(out) || hipFree(ticket) || hipFree(states)) return 1;
  if (host != expected) return 2;
  std::puts("right");
}
