#include <hip/hip_runtime.h>

// Kernels of several fields that were added after the first 43.

// Lennard-Jones energies in double precision; positions pass through LDS.
extern "C" __global__ void __launch_bounds__(256) lennard_jones(const double* __restrict__ x, double* __restrict__ energy, int count) {
  __shared__ double tile[256];
  const double me = x[blockIdx.x * 256 + threadIdx.x];
  double e = 0.0;
  for (int s = 0; s < count; s += 256) {
    tile[threadIdx.x] = x[s + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 256; ++i) {
      const double d = tile[i] - me, r2 = fma(d, d, 0.25), u = fma(r2, -0.31, 2.0), v = u * fma(-r2, u, 2.0), w = v * v * v;
      e = fma(w, w - 1.0, e);
    }
    __syncthreads();
  }
  energy[blockIdx.x * 256 + threadIdx.x] = e;
}

// Random numbers that all lanes share: a wavefront makes the sequence of its stream.
extern "C" __global__ void shared_sequence(const unsigned* __restrict__ seeds, unsigned* __restrict__ out, int length) {
  const int stream = (blockIdx.x * blockDim.x + threadIdx.x) / 64;
  unsigned s = __builtin_amdgcn_readfirstlane(seeds[stream & 255]) + __builtin_amdgcn_readfirstlane(stream), t = 0;
  for (int i = 0; i < length; ++i) {
    s ^= s << 13;
    s ^= s >> 17;
    s ^= s << 5;
    t += s * 2654435761u;
  }
  if ((threadIdx.x & 63) == 0) out[stream] = t;
}

// Rows of different length, a workgroup each.
extern "C" __global__ void __launch_bounds__(256) ragged_norms(const int* __restrict__ starts, const float* __restrict__ values, float* __restrict__ norms) {
  __shared__ float sums[4];
  float sum = 0.f;
  for (int i = starts[blockIdx.x] + threadIdx.x; i < starts[blockIdx.x + 1]; i += 256) sum += values[i] * values[i];
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if ((threadIdx.x & 63) == 0) sums[threadIdx.x >> 6] = sum;
  __syncthreads();
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrtf(sums[0] + sums[1] + sums[2] + sums[3]);
}

// Logistic maps with a table of 24 KiB in LDS per workgroup: how often each interval is visited.
extern "C" __global__ void __launch_bounds__(256) orbit_density(unsigned* __restrict__ out, int steps) {
  __shared__ unsigned visits[9216];
  for (int i = threadIdx.x; i < 9216; i += 256) visits[i] = 0;
  __syncthreads();
  float x = (blockIdx.x * 256 + threadIdx.x) * 1e-5f + 0.1f;
  for (int s = 0; s < steps; ++s) {
#pragma unroll
    for (int k = 0; k < 16; ++k) x = 3.9f * x * (1.f - x);
    if ((s & 63) == 63) atomicAdd(&visits[(unsigned)(x * 9215.f) % 9216u], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 9216; i += 256)
    if (visits[i]) atomicAdd(&out[i], visits[i]);
}

// Convolution of channels: a tile of the input is loaded, used and replaced; LDS keeps the last 31 sums.
extern "C" __global__ void __launch_bounds__(256) channel_sums(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out, int channels) {
  __shared__ float tile[8192];
  float sum = 0.f;
  for (int c = 0; c < channels; ++c) {
    __syncthreads();
    tile[threadIdx.x] = in[((size_t)c * gridDim.x + blockIdx.x) * 256 + threadIdx.x];
    tile[threadIdx.x + (c + 1) % 32 * 256] = sum;
    __syncthreads();
    sum += tile[255 - threadIdx.x] * w[c];
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Decision trees in LDS, a wavefront's lanes share the path of one sample.
extern "C" __global__ void __launch_bounds__(256) forest_votes(const uint2* __restrict__ nodes, const unsigned* __restrict__ samples, unsigned* __restrict__ votes, int trees) {
  __shared__ uint2 tree[4095];
  for (int i = threadIdx.x; i < 4095; i += 256) tree[i] = nodes[i];
  __syncthreads();
  unsigned vote = 0;
  const unsigned sample = samples[(blockIdx.x * 256 + threadIdx.x) / 64];
  for (int t = 0; t < trees; ++t) {
    const unsigned x = sample * (t * 2u + 1u);
    unsigned at = 0;
#pragma unroll 1
    for (int depth = 0; depth < 11; ++depth) {
      const uint2 n = tree[at];
      at = 2 * at + 1 + ((x ^ n.y) > n.x);
    }
    vote += at;
  }
  votes[blockIdx.x * 256 + threadIdx.x] = vote;
}

// Rows of a sparse matrix by one wavefront each: start, then block column, then the value of the row, all uniform.
extern "C" __global__ void __launch_bounds__(64) block_rows(const int* __restrict__ first, const int* __restrict__ next, const int* __restrict__ block, const float* __restrict__ scale, float* __restrict__ y) {
  float sum = 0.f;
  for (int e = first[blockIdx.x]; e >= 0; e = next[e]) {
    const int b = block[e];
    sum = fmaf(scale[b], (float)threadIdx.x, sum);
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}

// Interprets runs: each lane holds a value, the wavefront finds equal neighbours and leaves one of each.
extern "C" __global__ void __launch_bounds__(256) distinct_values(const unsigned* __restrict__ in, unsigned* __restrict__ counts, int rows) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) / 64;
  unsigned total = 0, value = in[wave * 64 + lane];
  for (int r = 0; r < rows; ++r) {
    unsigned long long left = ~0ull;
    while (left) {
      const int first = __ffsll(left) - 1;
      const unsigned v = __builtin_amdgcn_readlane(value, first);
      left &= ~__ballot(value == v);
      ++total;
    }
    value = value * 5u + 7u & 15u;
  }
  counts[wave * 64 + lane] = total;
}

// Transform of 64 complex numbers per work-item in registers, compiled for workgroups of 1024.
template <int N> static __device__ __forceinline__ void butterflies(float2 (&v)[64]) {
  if constexpr (N > 1) {
#pragma unroll
    for (int base = 0; base < 64; base += N)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const float2 a = v[base + i], b = v[base + i + N / 2];
        v[base + i] = {a.x + b.x, a.y + b.y};
        v[base + i + N / 2] = {(a.x - b.x) * 0.7f - (a.y - b.y) * 0.3f, (a.x - b.x) * 0.3f + (a.y - b.y) * 0.7f};
      }
    butterflies<N / 2>(v);
  }
}
extern "C" __global__ void __launch_bounds__(1024) transform_64(const float2* __restrict__ in, float2* __restrict__ out, int times) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, n = (size_t)gridDim.x * blockDim.x;
  float2 v[64];
#pragma unroll
  for (int k = 0; k < 64; ++k) v[k] = in[k * n + i];
#pragma unroll 1
  for (int t = 0; t < times; ++t) butterflies<64>(v);
#pragma unroll
  for (int k = 0; k < 64; ++k) out[k * n + i] = v[k];
}

// One addition for every compute unit.
extern "C" __global__ void advance_state(float* __restrict__ state, float step) { state[blockIdx.x * blockDim.x + threadIdx.x] += step; }

// Decimal digits of numbers.
extern "C" __global__ void format_numbers(const unsigned long long* __restrict__ numbers, unsigned* __restrict__ text, unsigned base) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long n = numbers[i];
  unsigned sum = 0;
  for (int d = 0; d < 12; ++d) {
    sum = sum * 31u + '0' + (unsigned)(n % base);
    n /= base;
  }
  text[i] = sum;
}

// 27-point stencil of 16-bit labels with a step of two: the most frequent direction.
extern "C" __global__ void label_sums(const unsigned short* __restrict__ in, unsigned short* __restrict__ out, int pitch, int plane) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, at = blockIdx.z * plane + blockIdx.y * pitch + x;
  unsigned sum = 0;
#pragma unroll
  for (int z = 0; z < 3; ++z)
#pragma unroll
    for (int y = 0; y < 3; ++y)
#pragma unroll
      for (int k = 0; k < 3; ++k) sum += in[at + 2 * (z * plane + y * pitch + k)];
  out[at] = sum / 27;
}

// Structures of arrays from an array of structures of 48 bytes, one field.
struct Event {
  double time;
  float energy, angle;
  int detector[8];
};
extern "C" __global__ void energies(const Event* __restrict__ events, float* __restrict__ out) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = events[i * 4].energy;
}

// Wavefront 0 sorts the pivots of a block of 512 keys, the others wait, then all classify.
extern "C" __global__ void __launch_bounds__(512) classify_keys(const unsigned* __restrict__ keys, unsigned char* __restrict__ classes, int blocks) {
  __shared__ unsigned pivots[64];
  for (int b = 0; b < blocks; ++b) {
    const size_t at = ((size_t)blockIdx.x * blocks + b) * 512 + threadIdx.x;
    const unsigned key = keys[at];
    if (threadIdx.x < 64) {
      unsigned v = key;
      for (int k = 2; k <= 64; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
          const unsigned other = __shfl_xor(v, j);
          const bool up = ((threadIdx.x & k) == 0) == ((threadIdx.x & j) == 0);
          v = up == (other < v) ? other : v;
        }
      pivots[threadIdx.x] = v;
    }
    __syncthreads();
    int low = 0;
    for (int step = 32; step; step >>= 1) low += pivots[low + step - 1] < key ? step : 0;
    classes[at] = low;
    __syncthreads();
  }
}

// Depth of every node of a forest by following the parents; nodes are numbered at random.
extern "C" __global__ void node_depths(const int* __restrict__ parents, int* __restrict__ depths) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int depth = 0;
  for (int at = parents[i]; at != 0; at = parents[at]) ++depth;
  depths[i] = depth;
}
