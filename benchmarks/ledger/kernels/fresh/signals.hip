// Signal and image processing: transforms, filters, entropy coding, ciphers.
#include <hip/hip_runtime.h>

// 4096-point transform of a workgroup, radix 16; the exchange writes with stride 16.
extern "C" __global__ void __launch_bounds__(256) fft_4096(const float2* __restrict__ in, float2* __restrict__ out, int times) {
  __shared__ float2 s[4096];
  const int t = threadIdx.x;
  const size_t base = (size_t)blockIdx.x * 4096;
  float2 x[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) x[k] = in[base + k * 256 + t];
  for (int pass = 0; pass < times; ++pass) {
#pragma unroll
    for (int span = 8; span > 0; span >>= 1) {
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        if (k & span) continue;
        const float2 a = x[k], b = x[k + span];
        x[k] = make_float2(a.x + b.x, a.y + b.y);
        x[k + span] = make_float2(0.7f * (a.x - b.x) + 0.7f * (a.y - b.y), 0.7f * (a.y - b.y) - 0.7f * (a.x - b.x));
      }
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) s[t * 16 + k] = make_float2(x[k].x * 0.2f, x[k].y * 0.2f);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) x[k] = s[k * 256 + t];
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < 16; ++k) out[base + k * 256 + t] = x[k];
}

// Autocorrelation of complex samples in LDS; a work-item has one lag, its partner value is in registers.
extern "C" __global__ void __launch_bounds__(256) autocorrelation(const float2* __restrict__ signal, float2* __restrict__ out, int rounds) {
  __shared__ float2 s[768];
  const int t = threadIdx.x;
  for (int k = t; k < 768; k += 256) s[k] = signal[(size_t)blockIdx.x * 768 + k];
  __syncthreads();
  const float2 w = s[t];
  float a = 0.f, b = 0.f;
  for (int r = 0; r < rounds; ++r) {
    const float2* from = s + t + (r & 7);
#pragma unroll
    for (int k = 0; k < 64; ++k) {
      const float2 v = from[k * 7];
      a = fmaf(v.x, w.x, a);
      b = fmaf(v.y, w.y, b);
    }
  }
  out[(size_t)blockIdx.x * 256 + t] = make_float2(a, b);
}

// Substitution rounds with tables in LDS, as AES is written for CPUs; the state decides the address.
extern "C" __global__ void __launch_bounds__(256) cipher_blocks(const unsigned* __restrict__ tables, uint4* __restrict__ blocks, uint4 key, int rounds) {
  __shared__ unsigned enc[1024];
  for (int k = threadIdx.x; k < 1024; k += 256) enc[k] = tables[k];
  __syncthreads();
  const int i = blockIdx.x * 256 + threadIdx.x;
  uint4 s = blocks[i];
  for (int r = 0; r < rounds; ++r) {
    const unsigned a = enc[s.x & 255] ^ enc[256 + (s.y >> 8 & 255)] ^ enc[512 + (s.z >> 16 & 255)] ^ enc[768 + (s.w >> 24)] ^ key.x;
    const unsigned b = enc[s.y & 255] ^ enc[256 + (s.z >> 8 & 255)] ^ enc[512 + (s.w >> 16 & 255)] ^ enc[768 + (s.x >> 24)] ^ key.y;
    const unsigned c = enc[s.z & 255] ^ enc[256 + (s.w >> 8 & 255)] ^ enc[512 + (s.x >> 16 & 255)] ^ enc[768 + (s.y >> 24)] ^ key.z;
    const unsigned d = enc[s.w & 255] ^ enc[256 + (s.x >> 8 & 255)] ^ enc[512 + (s.y >> 16 & 255)] ^ enc[768 + (s.z >> 24)] ^ key.w;
    s = make_uint4(a, b, c, d);
  }
  blocks[i] = s;
}

// Erosion of the green channel of an RGB image with a square of 5 x 5.
extern "C" __global__ void __launch_bounds__(256) erode_green(const unsigned char* __restrict__ rgb, unsigned char* __restrict__ out, int pitch) {
  const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y;
  const unsigned char* p = rgb + y * pitch + x * 3 + 1;
  unsigned least = 255;
#pragma unroll
  for (int r = 0; r < 5; ++r)
#pragma unroll
    for (int c = 0; c < 5; ++c) least = min(least, (unsigned)p[r * pitch + c * 3]);
  out[(y * gridDim.x + blockIdx.x) * 256 + threadIdx.x] = (unsigned char)least;
}

// Cyclic redundancy check of a record per wavefront, bit by bit; all lanes of a wavefront have the same record.
extern "C" __global__ void __launch_bounds__(256) crc_records(const unsigned* __restrict__ records, unsigned* __restrict__ crc, unsigned polynomial, int words) {
  const int wave = __builtin_amdgcn_readfirstlane((blockIdx.x * 256 + threadIdx.x) >> 6);
  unsigned c = 0xffffffffu;
  for (int w = 0; w < words; ++w) {
    c ^= records[(wave & 1023) * words + w];
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) c = (c & 1u) ? (c >> 1) ^ polynomial : c >> 1;
  }
  crc[blockIdx.x * 256 + threadIdx.x] = c;
}

// Entropy decoder: the decoder of a group runs in one wavefront, the other seven apply the symbols.
extern "C" __global__ void __launch_bounds__(512) decode_groups(const unsigned* __restrict__ stream, float* __restrict__ out, int groups) {
  __shared__ unsigned symbols[512];
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int g = 0; g < groups; ++g) {
    if (t < 64) {
      unsigned state = stream[(size_t)blockIdx.x * 64 + t] + g;
      for (int k = 0; k < 8; ++k) {
#pragma unroll 8
        for (int bit = 0; bit < 64; ++bit) state = (state >> 3) * 2654435769u + (state ^ bit);
        symbols[k * 64 + t] = state;
      }
    }
    __syncthreads();
    sum += symbols[t] * 1e-9f;
    __syncthreads();
  }
  out[(size_t)blockIdx.x * 512 + t] = sum;
}

// Range coder of one stream per wavefront: the interval and the symbol alternate between lanes and the scalar unit.
extern "C" __global__ void __launch_bounds__(256) range_decode(const unsigned* __restrict__ frequencies, const unsigned* __restrict__ codes, unsigned* __restrict__ out, int symbols) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) >> 6;
  const unsigned limit = frequencies[lane];
  unsigned code = __builtin_amdgcn_readfirstlane(codes[wave]), sum = 0;
  for (int s = 0; s < symbols; ++s) {
    const unsigned long long below = __ballot(limit <= (code & 0xffffu));
    const int symbol = __popcll(below) - 1;
    const unsigned base = __builtin_amdgcn_readlane(limit, symbol & 63);
    code = (code >> 1) * 40503u + base + s;
    sum += symbol;
  }
  out[wave * 64 + lane] = sum + code;
}

// Polynomial of degree 20 in double precision, for four neighbouring samples of a spline.
extern "C" __global__ void __launch_bounds__(256) warp_samples(const double* __restrict__ coefficients, double* __restrict__ out, int times) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  double a = i * 1e-7, b = a + 1e-8, c = a + 2e-8, d = a + 3e-8;
  for (int t = 0; t < times; ++t) {
    double p = 1, q = 1, r = 1, s = 1;
#pragma unroll
    for (int k = 0; k < 20; ++k) {
      const double w = coefficients[k];
      p = fma(p, a, w);
      q = fma(q, b, w);
      r = fma(r, c, w);
      s = fma(s, d, w);
    }
    a = p;
    b = q;
    c = r;
    d = s;
  }
  out[i] = a + b + c + d;
}

// Prefix sum of a histogram of 64 bins.
extern "C" __global__ void __launch_bounds__(64) prefix_of_histogram(const unsigned* __restrict__ histogram, unsigned* __restrict__ start) {
  unsigned v = histogram[threadIdx.x];
#pragma unroll
  for (int offset = 1; offset < 64; offset <<= 1) {
    const unsigned other = __shfl_up(v, offset);
    if ((int)threadIdx.x >= offset) v += other;
  }
  start[threadIdx.x] = v;
}
