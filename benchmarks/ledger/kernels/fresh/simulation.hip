// Simulation codes: particles, grids, random numbers, statistics.
#include <hip/hip_runtime.h>

// Philox 4x32-10, counters in, sum of the words out.
extern "C" __global__ void __launch_bounds__(256) philox_stream(unsigned* __restrict__ out, unsigned key0, unsigned key1, int blocks) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  unsigned sum = 0;
  for (int b = 0; b < blocks; ++b) {
    unsigned x = i, y = b, z = 7u, w = 11u, k0 = key0, k1 = key1;
#pragma unroll
    for (int r = 0; r < 10; ++r) {
      const unsigned long long p = (unsigned long long)x * 0xD2511F53u, q = (unsigned long long)z * 0xCD9E8D57u;
      x = (unsigned)(q >> 32) ^ y ^ k0;
      y = (unsigned)q;
      z = (unsigned)(p >> 32) ^ w ^ k1;
      w = (unsigned)p;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    sum += x ^ y ^ z ^ w;
  }
  out[i] = sum;
}

// Gamma variates by rejection: a lane repeats until its candidate is accepted.
extern "C" __global__ void __launch_bounds__(256) rejection_sampling(unsigned* __restrict__ tries, unsigned acceptance, unsigned seed) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  unsigned state = (i + seed) * 747796405u + 2891336453u, count = 0, word;
  do {
    state = state * 747796405u + 2891336453u;
    word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
    word ^= word >> 22;
    word = (word ^ word >> 16) * 0x7feb352du;
    word ^= word >> 15;
    ++count;
  } while (word > acceptance && count < 4000u);
  tries[i] = count;
}

// Charge of particles on a grid; particles are sorted, so 64 neighbours are in one cell.
extern "C" __global__ void __launch_bounds__(256) deposit_charge(const int* __restrict__ cell, const float* __restrict__ weight, float* __restrict__ grid) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float w = weight[i];
  const int c = cell[i];
  atomicAdd(grid + c, 1.f - w);
  atomicAdd(grid + c + 1, w);
}

// Error sums of 16 classes in global memory.
extern "C" __global__ void __launch_bounds__(256) class_errors(const unsigned char* __restrict__ classes, const float* __restrict__ error, float* __restrict__ sums) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  atomicAdd(sums + (classes[i] & 15), error[i]);
}

// Stencil that sweeps along z: a plane is loaded, waited for and used between barriers.
extern "C" __global__ void __launch_bounds__(256) sweep_planes(const float* __restrict__ u, float* __restrict__ out, int planes, int plane) {
  __shared__ float s[258];
  const int t = threadIdx.x, at = blockIdx.x * 256 + t;
  float sum = 0.f, below = 0.f;
  s[t < 2 ? t * 257 : 0] = 0.f;
  for (int z = 0; z < planes; ++z) {
    const float here = u[(size_t)z * plane + at];
    s[t + 1] = here;
    __syncthreads();
    sum += s[t] + s[t + 2] - 2.f * here + below;
    below = here;
    __syncthreads();
  }
  out[at] = sum;
}

// Orbits of test particles around one mass: many steps of integration, few particles.
extern "C" __global__ void __launch_bounds__(256) integrate_orbits(const float4* __restrict__ bodies, float4* __restrict__ out, int steps) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float4 p = bodies[i];
  float vx = 0.f, vy = 0.1f, vz = 0.2f;
  for (int s = 0; s < steps; ++s) {
    const float r2 = p.x * p.x + p.y * p.y + p.z * p.z + 0.01f;
    const float inverse = __builtin_amdgcn_rsqf(r2);
    const float f = inverse * inverse * inverse * p.w;
    vx -= f * p.x;
    vy -= f * p.y;
    vz -= f * p.z;
    p.x += vx * 0.001f;
    p.y += vy * 0.001f;
    p.z += vz * 0.001f;
  }
  out[i] = p;
}

// Tile of a plasma code in 36 KiB of LDS; one workgroup of 512 work-items per compute unit.
extern "C" __global__ void __launch_bounds__(512) push_tile(const float* __restrict__ field, float* __restrict__ energy, int steps) {
  __shared__ float e[9216];
  const int t = threadIdx.x;
  for (int k = t; k < 9216; k += 512) e[k] = field[k];
  __syncthreads();
  float x = t * 0.001f, v = 0.3f, sum = 0.f;
  for (int s = 0; s < steps; ++s) {
    const float f = e[(t * 16 + (s & 15) * 577 + (s >> 4)) % 9216 / 16 + t];
#pragma unroll
    for (int k = 0; k < 12; ++k) {
      v = v * 0.999f + f * 0.01f;
      x = x + v * 0.01f;
      sum = sum + v * x;
    }
  }
  energy[blockIdx.x * 512 + t] = sum;
}

// Wavefront w of a workgroup has (w + 1) * (w + 1) bands of a triangular solve; all meet after every step.
extern "C" __global__ void __launch_bounds__(512) triangular_steps(const float* __restrict__ rhs, float* __restrict__ out, int steps, int unit) {
  __shared__ float s[512];
  const int t = threadIdx.x, wave = __builtin_amdgcn_readfirstlane(t >> 6);
  float x = rhs[blockIdx.x * 512 + t];
  for (int step = 0; step < steps; ++step) {
    const int bands = (wave + 1) * (wave + 1) * unit;
    for (int b = 0; b < bands; ++b) {
#pragma unroll
      for (int k = 0; k < 8; ++k) x = fmaf(x, 0.99f, 0.01f * k);
    }
    s[t] = x;
    __syncthreads();
    x += s[(t + 64) & 511] * 0.01f;
    __syncthreads();
  }
  out[blockIdx.x * 512 + t] = x;
}

// Chemistry of a cell as generated code: every reaction has other constants.
template <int From, int To>
__device__ __attribute__((always_inline)) inline void mechanism(float (&c)[16]) {
  if constexpr (To - From == 1) {
    constexpr int a = From * 7 % 16, b = (From * 5 + 3) % 16, d = (From * 11 + 1) % 16;
    c[d] = fmaf(c[a] * (1.f / (From + 1.5f)), c[b] * (0.3f + 0.0001f * From), c[d] * (0.5f - 0.00007f * From));
  } else {
    mechanism<From, (From + To) / 2>(c);
    mechanism<(From + To) / 2, To>(c);
  }
}
extern "C" __global__ void __launch_bounds__(256) ignite_cells(float* __restrict__ cells) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)gridDim.x * 256;
  float c[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) c[k] = cells[k * n + i];
  mechanism<0, 2800>(c);
#pragma unroll
  for (int k = 0; k < 16; ++k) cells[k * n + i] = c[k];
}

// Additive model compiled to code: every term is a clamped ramp with its own constants.
template <int From, int To>
__device__ __attribute__((always_inline)) inline void terms(const float (&x)[12], float& score) {
  if constexpr (To - From == 1) {
    constexpr int a = From * 5 % 12, b = (From * 7 + 1) % 12;
    const float ramp = x[a] * (0.001f * From + 0.5f) - x[b];
    score = score * 0.99f + fminf(fmaxf(ramp, 0.0003f * From - 0.4f), 0.37f + 0.0001f * From);
  } else {
    terms<From, (From + To) / 2>(x, score);
    terms<(From + To) / 2, To>(x, score);
  }
}
extern "C" __global__ void __launch_bounds__(256) score_samples(const float* __restrict__ samples, float* __restrict__ scores) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)gridDim.x * 256;
  float x[12];
#pragma unroll
  for (int k = 0; k < 12; ++k) x[k] = samples[k * n + i];
  float score = 1.f;
  terms<0, 1800>(x, score);
  scores[i] = score;
}
