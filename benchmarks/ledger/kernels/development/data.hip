#include <hip/hip_runtime.h>

// Hashing, sorting, searching and compression.

static __device__ __forceinline__ unsigned rotate(unsigned x, int n) { return x >> n | x << (32 - n); }

// Compression function of SHA-256 for a range of nonces.
extern "C" __global__ void sha256_nonces(unsigned* __restrict__ out, unsigned first) {
  constexpr unsigned k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
      0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
      0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
      0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
      0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
      0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned w[16] = {first + i, 0x80000000u};
  w[15] = 32;
  unsigned a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a, e = 0x510e527f, f = 0x9b05688c, g = 0x1f83d9ab, h = 0x5be0cd19;
#pragma unroll
  for (int t = 0; t < 64; ++t) {
    if (t >= 16) {
      const unsigned x = w[(t + 1) % 16], y = w[(t + 14) % 16];
      w[t % 16] += (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[(t + 9) % 16] + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    const unsigned t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t % 16];
    const unsigned t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
  }
  out[i] = a + b + c + d + e + f + g + h;
}

// Every work-item evaluates its own program of eight operations, packed four bits each, on eight inputs.
extern "C" __global__ void evaluate_programs(const unsigned* __restrict__ programs, float* __restrict__ out, float4 inputs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned program = programs[i];
  float x = inputs.x, y = inputs.y;
  for (int r = 0; r < 4; ++r)
    for (int pc = 0; pc < 8; ++pc) {
      switch (program >> 4 * pc & 15) {
        case 0: x = x + y * inputs.z; break;
        case 1: x = x * inputs.w - y; break;
        case 2: x = __sinf(x); break;
        case 3: x = __expf(-x * x); break;
        case 4: x = sqrtf(fabsf(x)); break;
        case 5: y = x / (1.f + y * y); break;
        case 6: x = fmaxf(x, y) * 0.5f; break;
        case 7: y = fminf(x, y) + 1.f; break;
        case 8: x = __logf(fabsf(x) + 1.f); break;
        case 9: y = x * x - y * y; break;
        case 10: x = 1.f / (fabsf(y) + 0.5f); break;
        case 11: x = fabsf(x - y); break;
        case 12: y = __cosf(y); break;
        case 13: x = x - floorf(x); break;
        case 14: y = rsqrtf(fabsf(x) + 1.f); break;
        default: x = -x;
      }
    }
  out[i] = x + y;
}

// k-th smallest of rows of 64 values, a bit at a time; a wavefront per row.
extern "C" __global__ void __launch_bounds__(256) select_kth(const unsigned* __restrict__ rows, unsigned* __restrict__ out, int per_wave, int k) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) / 64;
  unsigned next = rows[(size_t)wave * per_wave * 64 + lane], result = 0;
  for (int r = 0; r < per_wave; ++r) {
    const unsigned value = next;
    next = rows[((size_t)wave * per_wave + (r + 1 < per_wave ? r + 1 : r)) * 64 + lane];
    unsigned found = 0;
#pragma unroll 1
    for (int bit = 31; bit >= 0; --bit) {
      const unsigned candidate = found | 1u << bit;
      if (__popcll(__ballot(value < candidate)) < k) found = candidate;
    }
    if (lane == (r & 63)) result = found;
  }
  out[wave * 64 + lane] = result;
}

// A wavefront decodes its stream with a table of states in LDS; every symbol depends on the state before it.
extern "C" __global__ void __launch_bounds__(256) decode_states(const unsigned* __restrict__ table, unsigned* __restrict__ out, int symbols) {
  __shared__ unsigned states[8192];
  for (int i = threadIdx.x; i < 8192; i += 256) states[i] = table[i];
  __syncthreads();
  unsigned state = (blockIdx.x * 256 + threadIdx.x) / 64 * 37 & 8191, sum = 0;
  for (int s = 0; s < symbols; ++s) {
    const unsigned entry = states[state];
    sum += entry >> 16;
    state = entry & 8191;
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Counts set flags.
extern "C" __global__ void count_flags(const unsigned* __restrict__ flags, unsigned* __restrict__ total) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned long long set = __ballot(flags[i] != 0);
  if ((threadIdx.x & 63) == 0) atomicAdd(total, (unsigned)__popcll(set));
}

// Sum of squares, grid-stride.
extern "C" __global__ void __launch_bounds__(256) sum_squares(const float4* __restrict__ x, float* __restrict__ partial, int count) {
  float sum = 0.f;
#pragma unroll 4
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) {
    const float4 v = x[i];
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  partial[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Evaluation of polynomials of degree 64, two per work-item.
extern "C" __global__ void polynomials(float* __restrict__ out, float4 c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = i * 1e-7f;
  float p = c.x, q = c.y;
  for (int r = 0; r < 48; ++r) {
#pragma unroll
    for (int k = 0; k < 32; ++k) {
      p = fmaf(p, x, c.z);
      q = fmaf(q, x, c.w);
    }
  }
  out[i] = p + q;
}

// A wavefront looks keys up in a tree of three levels with 64 children each: every lane compares one key of the node.
extern "C" __global__ void __launch_bounds__(1024) tree_lookups(const unsigned* __restrict__ tree, const unsigned* __restrict__ keys, unsigned* __restrict__ out, int per_wave) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 1024 + threadIdx.x) / 64;
  const unsigned mine = keys[wave * 64 + lane];
  unsigned found = 0;
  for (int r = 0; r < per_wave; ++r) {
    const unsigned key = __builtin_amdgcn_readlane(mine, r & 63);
    unsigned node = 0, level = 0;
#pragma unroll
    for (int depth = 0; depth < 3; ++depth) {
      const unsigned separator = tree[level + node * 64 + lane];
      const unsigned child = __popcll(__ballot(separator < key));
      level += depth == 0 ? 64 : 4096;
      node = node * 64 + (child < 63 ? child : 63);
    }
    if (lane == (r & 63)) found = node;
  }
  out[wave * 64 + lane] = found;
}
