// Databases and text: hashing, search trees, sorting, string search.
#include <hip/hip_runtime.h>

// Checksum of pages, four loads of 16 bytes in flight.
extern "C" __global__ void __launch_bounds__(256) checksum_pages(const uint4* __restrict__ pages, unsigned* __restrict__ sums) {
  const size_t base = (size_t)blockIdx.x * 4096 + threadIdx.x;
  unsigned s = 0;
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const uint4 v = pages[base + k * 256];
    s += v.x ^ v.y ^ v.z ^ v.w;
  }
  sums[(size_t)blockIdx.x * 256 + threadIdx.x] = s;
}

// Chained buckets of a hash table, a wavefront per key: the first word of a bucket of 32 names the next bucket.
extern "C" __global__ void __launch_bounds__(256) search_chain(const unsigned* __restrict__ buckets, const unsigned* __restrict__ keys, unsigned* __restrict__ found, int length) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 63;
  const unsigned key = keys[i >> 6 & 8191];
  unsigned bucket = keys[(i >> 6) + 7 & 8191], best = 0;
#pragma unroll 4
  for (int k = 0; k < length; ++k) {
    const unsigned word = buckets[bucket * 32 + (lane & 31)];
    best = max(best, word ^ key);
    bucket = __shfl(word, 0);
  }
  found[i] = best;
}

// Four probes of a Bloom filter per key.
extern "C" __global__ void __launch_bounds__(256) bloom_filter(const unsigned* __restrict__ keys, const unsigned* __restrict__ bits, unsigned char* __restrict__ maybe, unsigned mask) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const unsigned key = keys[i];
  unsigned all = 1;
#pragma unroll
  for (unsigned h = 1; h <= 4; ++h) {
    const unsigned hash = (key ^ key >> 15) * (0x2c1b3c6du + 2u * h) ^ key >> 12;
    all &= bits[hash & mask] >> (hash >> 27);
  }
  maybe[i] = all & 1;
}

// Last step of a radix sort: every key goes to the place that was counted for it.
extern "C" __global__ void __launch_bounds__(256) scatter_keys(const unsigned* __restrict__ keys, const unsigned* __restrict__ place, unsigned* __restrict__ sorted) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  sorted[place[i]] = keys[i];
}

// Counts of 240 digits for each lane, so that lanes never meet: 60 KiB of LDS for a wavefront.
extern "C" __global__ void __launch_bounds__(64) private_counts(const unsigned* __restrict__ keys, unsigned* __restrict__ counts, int each) {
  __shared__ unsigned mine[240 * 64];
  const int t = threadIdx.x;
  for (int d = 0; d < 240; ++d) mine[d * 64 + t] = 0;
  const size_t base = (size_t)blockIdx.x * each * 64 + t;
  for (int k = 0; k < each; ++k) {
    const unsigned digit = keys[base + (size_t)k * 64] % 240u;
    mine[digit * 64 + t] += 1;
  }
  unsigned sum = 0;
  for (int d = 0; d < 240; ++d) sum += mine[d * 64 + t] * d;
  counts[blockIdx.x * 64 + t] = sum;
}

// Lists of the 64 best: every lane keeps a sorted local list, through which a candidate sinks.
extern "C" __global__ void __launch_bounds__(256) best_64(const unsigned* __restrict__ scores, unsigned* __restrict__ best, int count) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  unsigned list[64];
#pragma unroll
  for (int k = 0; k < 64; ++k) list[k] = 0;
  unsigned hash = scores[i];
  for (int c = 0; c < count; ++c) {
    hash = hash * 1664525u + 1013904223u;
    unsigned sinking = hash;
#pragma unroll 1
    for (int k = 0; k < 64; ++k) {
      const unsigned held = list[k];
      list[k] = max(held, sinking);
      sinking = min(held, sinking);
    }
  }
  unsigned x = 0;
#pragma unroll 1
  for (int k = 0; k < 64; ++k) x = x * 31u + list[k];
  best[i] = x;
}

// Search of one pattern in a text, 16 letters per work-item and round; the few workgroups come from the number of documents.
extern "C" __global__ void __launch_bounds__(256) fuzzy_search(const uint4* __restrict__ text, unsigned* __restrict__ hits, uint4 pattern, int rounds) {
  const uint4 own = text[(size_t)blockIdx.x * 256 + threadIdx.x];
  unsigned best = 999, x = own.x, y = own.y, z = own.z, w = own.w;
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned distance = __popc(x ^ pattern.x) + __popc(y ^ pattern.y) + __popc(z ^ pattern.z) + __popc(w ^ pattern.w);
      best = min(best, distance);
      const unsigned carry = x >> 31;
      x = x << 1 | y >> 31;
      y = y << 1 | z >> 31;
      z = z << 1 | w >> 31;
      w = (w << 1 | carry) + k;
    }
  }
  hits[blockIdx.x * 256 + threadIdx.x] = best;
}

// A deterministic automaton per wavefront: entries are offsets of the next state in bytes.
extern "C" __global__ void __launch_bounds__(256) run_automaton(const unsigned* __restrict__ states, unsigned* __restrict__ last, int steps) {
  const int wave = __builtin_amdgcn_readfirstlane((blockIdx.x * 256 + threadIdx.x) >> 6);
  unsigned offset = (unsigned)wave * 4093u % 262144u * 4u;
  const char* base = reinterpret_cast<const char*>(states);
#pragma unroll 8
  for (int s = 0; s < steps; ++s) offset = *reinterpret_cast<const unsigned*>(base + offset);
  last[blockIdx.x * 256 + threadIdx.x] = offset;
}

// Linked records of queries: the record names the next one and the word that is added.
extern "C" __global__ void __launch_bounds__(64) follow_records(const uint2* __restrict__ records, const float* __restrict__ amounts, float* __restrict__ totals, int steps, unsigned mask) {
  unsigned at = blockIdx.x * 7919u & mask;
  float total = threadIdx.x;
  for (int s = 0; s < steps; ++s) {
    const uint2 record = records[at];
    total = fmaf(total, 0.5f, amounts[record.y & mask]);
    at = record.x & mask;
  }
  totals[blockIdx.x * 64 + threadIdx.x] = total;
}

// Connected components of a small graph in LDS: every wavefront follows the parents of one vertex after the other.
extern "C" __global__ void __launch_bounds__(256) find_roots(const unsigned* __restrict__ parents, unsigned* __restrict__ roots, int steps) {
  __shared__ unsigned parent[7168];
  const int t = threadIdx.x;
  for (int k = t; k < 7168; k += 256) parent[k] = parents[k];
  __syncthreads();
  unsigned v = (t >> 6) * 1771u + (blockIdx.x & 1023u), sum = 0;
  for (int s = 0; s < steps; ++s) {
    v = parent[v];
    sum += v;
  }
  roots[blockIdx.x * 256 + t] = sum;
}

// View of an array of rank 8, sizes and strides at run time, element by element.
struct View {
  int size[8], stride[8];
};
extern "C" __global__ void __launch_bounds__(256) gather_view(const float* __restrict__ in, float* __restrict__ out, View view) {
  const int o = blockIdx.x * 256 + threadIdx.x;
  int i = o, from = 0;
#pragma unroll
  for (int d = 7; d >= 0; --d) {
    from += i % view.size[d] * view.stride[d];
    i /= view.size[d];
  }
  out[o] = in[from];
}
