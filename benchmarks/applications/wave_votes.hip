// Votes and lane operations: any, all, ballot, match, active lanes in divergent code, compaction, permutations.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

void hip_die(hipError_t e, const char* what) {
  fprintf(stderr, "%s: %s\n", what, hipGetErrorString(e));
  exit(2);
}
#define hip(function, ...)                                                            \
  do {                                                                                \
    if (hipError_t e = hip##function(__VA_ARGS__)) hip_die(e, "hip" #function);       \
  } while (0)

struct Votes {
  int any, all, shifted, rotated, first;
  uint64_t positive, same, inner;
};

__device__ uint64_t match_any(int value) {  // lanes with the same value: one value per round
  uint64_t result = 0, todo = __ballot(1);
  while (todo) {
    const int leader = __ffsll((unsigned long long)todo) - 1;
    const uint64_t same = __ballot(value == __shfl(value, leader));
    if (value == __shfl(value, leader)) result = same;
    todo &= ~same;
  }
  return result;
}

__global__ void vote(const int* values, Votes* votes, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;  // n is a multiple of 64
  const int v = values[i], lane = __lane_id();
  Votes r = {};
  r.any = __any(v == 7);
  r.all = __all(v > -50);
  r.positive = __ballot(v > 0);
  r.same = match_any(v % 5);
  if (v % 3 == 0) {
    r.inner = __ballot(v > 0);  // lanes of the branch only
    r.first = __builtin_amdgcn_readfirstlane(v);
  }
  r.shifted = __shfl_up(v, 3, 16);
  r.rotated = __builtin_amdgcn_ds_bpermute(((lane + 5) % 64) * 4, v);
  votes[i] = r;
}

__global__ void compact(const int* values, int* out, int* size, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool keep = i < n && values[i] % 2;
  const uint64_t mask = __ballot(keep);
  if (!mask) return;
  const int lane = threadIdx.x % 64, leader = __ffsll((unsigned long long)mask) - 1;
  int base = 0;
  if (lane == leader) base = atomicAdd(size, __popcll(mask));
  base = __shfl(base, leader);
  if (keep) out[base + __popcll(mask & ((uint64_t(1) << lane) - 1))] = values[i];
}

int main() {
  const int n = 640;
  std::vector<int> values(n), kept(n);
  for (int i = 0; i < n; i++) values[i] = (i * i * 31 + 11 * i) % 101 - 48;
  std::vector<Votes> votes(n);
  int *d_values, *d_out, *d_size, size = 0;
  Votes* d_votes;
  hip(Malloc, &d_values, n * sizeof(int));
  hip(Malloc, &d_out, n * sizeof(int));
  hip(Malloc, &d_size, sizeof(int));
  hip(Malloc, &d_votes, n * sizeof(Votes));
  hip(Memcpy, d_values, values.data(), n * sizeof(int), hipMemcpyHostToDevice);
  hip(Memset, d_size, 0, sizeof(int));
  vote<<<n / 128, 128>>>(d_values, d_votes, n);
  compact<<<(n + 191) / 192, 192>>>(d_values, d_out, d_size, n);
  hip(DeviceSynchronize);
  hip(Memcpy, votes.data(), d_votes, n * sizeof(Votes), hipMemcpyDeviceToHost);
  hip(Memcpy, &size, d_size, sizeof(int), hipMemcpyDeviceToHost);
  hip(Memcpy, kept.data(), d_out, size * sizeof(int), hipMemcpyDeviceToHost);
  int wrong = 0, odd = 0;
  long long sum = 0, kept_sum = 0;
  for (int i = 0; i < n; i++) {
    const int *wave = &values[i / 64 * 64], lane = i % 64;
    Votes e = {};
    e.all = 1;
    bool found = false;
    for (int l = 0; l < 64; l++) {
      const uint64_t bit = uint64_t(1) << l;
      e.any |= wave[l] == 7;
      e.all &= wave[l] > -50;
      if (wave[l] > 0) e.positive |= bit;
      if (wave[l] % 5 == wave[lane] % 5) e.same |= bit;
      if (wave[lane] % 3 == 0 && wave[l] % 3 == 0) {
        if (wave[l] > 0) e.inner |= bit;
        if (!found) e.first = wave[l];
        found = true;
      }
    }
    e.shifted = wave[lane % 16 < 3 ? lane : lane - 3];
    e.rotated = wave[(lane + 5) % 64];
    const Votes& r = votes[i];
    wrong += !(r.any == e.any && r.all == e.all && r.shifted == e.shifted && r.rotated == e.rotated && r.first == e.first &&
               r.positive == e.positive && r.same == e.same && r.inner == e.inner);
    if (values[i] % 2) {
      odd++;
      sum += values[i];
    }
  }
  for (int i = 0; i < size; i++) kept_sum += kept[i];
  printf("votes: %d wrong, kept %d of %d with sum %lld\n", wrong, size, n, kept_sum);
  hip(Free, d_values);
  hip(Free, d_out);
  hip(Free, d_size);
  hip(Free, d_votes);
  return wrong || size != odd || sum != kept_sum ? 1 : 0;
}
