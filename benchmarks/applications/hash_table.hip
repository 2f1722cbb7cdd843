// Hash table with open addressing: concurrent insertion by compare-and-swap, counts, lookups.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#define OK(expr)                                                          \
  do {                                                                    \
    const auto e = (expr);                                                \
    if (e != hipSuccess) {                                                \
      std::fprintf(stderr, "%s\n  %s\n", #expr, hipGetErrorString(e));    \
      std::exit(EXIT_FAILURE);                                            \
    }                                                                     \
  } while (false)

constexpr uint32_t EMPTY = 0xffffffffu, SLOTS = 4096;
struct Slot {
  uint32_t key, count;
};

__device__ uint32_t hash(uint32_t k) {
  k ^= k >> 16;
  k *= 0x85ebca6bu;
  k ^= k >> 13;
  k *= 0xc2b2ae35u;
  return (k ^ k >> 16) & (SLOTS - 1);
}

__global__ void insert(Slot* table, const uint32_t* keys, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t key = keys[i];
  for (uint32_t at = hash(key);; at = (at + 1) & (SLOTS - 1)) {
    const uint32_t found = atomicCAS(&table[at].key, EMPTY, key);
    if (found == EMPTY || found == key) {
      atomicAdd(&table[at].count, 1u);
      return;
    }
  }
}

__global__ void lookup(const Slot* table, const uint32_t* keys, uint32_t* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t count = 0;
  for (uint32_t at = hash(keys[i]); table[at].key != EMPTY; at = (at + 1) & (SLOTS - 1))
    if (table[at].key == keys[i]) {
      count = table[at].count;
      break;
    }
  counts[i] = count;
}

int main() {
  const int n = 20000, queries = 5000;
  std::vector<uint32_t> keys(n), wanted(queries), counts(queries);
  uint64_t state = 88172645463325252ull;
  for (auto& key : keys) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    key = uint32_t(state % 3000) * 12345;  // load factor of up to 0.73
  }
  for (int i = 0; i < queries; i++) wanted[i] = i * 12345;
  std::map<uint32_t, uint32_t> expected;
  for (uint32_t key : keys) expected[key]++;
  Slot* table;
  uint32_t *d_keys, *d_wanted, *d_counts;
  OK(hipMalloc(&table, SLOTS * sizeof(Slot)));
  OK(hipMalloc(&d_keys, n * sizeof(uint32_t)));
  OK(hipMalloc(&d_wanted, queries * sizeof(uint32_t)));
  OK(hipMalloc(&d_counts, queries * sizeof(uint32_t)));
  const std::vector<Slot> empty(SLOTS, Slot{EMPTY, 0});
  OK(hipMemcpy(table, empty.data(), SLOTS * sizeof(Slot), hipMemcpyHostToDevice));
  OK(hipMemcpy(d_keys, keys.data(), n * sizeof(uint32_t), hipMemcpyHostToDevice));
  OK(hipMemcpy(d_wanted, wanted.data(), queries * sizeof(uint32_t), hipMemcpyHostToDevice));
  insert<<<(n + 255) / 256, 256>>>(table, d_keys, n);
  lookup<<<(queries + 255) / 256, 256>>>(table, d_wanted, d_counts, queries);
  OK(hipGetLastError());
  OK(hipMemcpy(counts.data(), d_counts, queries * sizeof(uint32_t), hipMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < queries; i++) {
    const auto at = expected.find(wanted[i]);
    wrong += counts[i] != (at == expected.end() ? 0 : at->second);
  }
  std::printf("hash table: %zu different keys of %d, %d of %d lookups wrong\n", expected.size(), n, wrong, queries);
  OK(hipFree(table));
  OK(hipFree(d_keys));
  OK(hipFree(d_wanted));
  OK(hipFree(d_counts));
  return wrong != 0;
}
