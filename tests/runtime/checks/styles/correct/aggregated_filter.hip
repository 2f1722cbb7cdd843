// Filter that aggregates its atomic by wavefront (ballot, count of bits, shuffle), in the style of ported code.
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdio>
#include <vector>

template <class Predicate>
__device__ void keep(const int *in, int *out, int *count, int n, Predicate predicate) {
  const int stride = blockDim.x * gridDim.x;
  for (int base = blockIdx.x * blockDim.x; base < n; base += stride) {
    const int i = base + threadIdx.x;
    const bool chosen = i < n && predicate(in[i]);
    const unsigned long long votes = __ballot(chosen);
    const int lane = __lane_id(), leader = __ffsll((unsigned long long)votes) - 1;
    int place = 0;
    if (votes && lane == leader) place = atomicAdd(count, __popcll(votes));
    place = __shfl(place, leader < 0 ? 0 : leader);
    if (chosen) out[place + __popcll(votes & ((1ull << lane) - 1))] = in[i];
  }
}

__global__ void multiples(const int *in, int *out, int *count, int n, int of) {
  keep(in, out, count, n, [of](int value) { return value % of == 0; });
}

int main() {
  const int n = 2500;
  std::vector<int> host(n);
  for (int i = 0; i < n; i++) host[i] = i;
  int *in, *out, *count, found = 0;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4) || hipMalloc(&count, 4)) return 1;
  if (hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice) || hipMemset(count, 0, 4)) return 1;
  multiples<<<3, 192>>>(in, out, count, n, 7);
  if (hipMemcpy(&found, count, 4, hipMemcpyDeviceToHost)) return 1;
  std::vector<int> kept(found);
  if (hipMemcpy(kept.data(), out, found * 4, hipMemcpyDeviceToHost) || hipFree(in) || hipFree(out) || hipFree(count)) return 1;
  std::sort(kept.begin(), kept.end());
  for (int i = 0; i < found; i++)
    if (kept[i] != 7 * i) return 2;
  if (found != (n + 6) / 7) return 3;
  std::puts("right");
}
