#include <hip/hip_runtime.h>

// Particles, fields and Monte Carlo.

extern "C" __global__ void __launch_bounds__(256) gravity(const float4* __restrict__ bodies, float4* __restrict__ forces, int count) {
  __shared__ float4 tile[256];
  const float4 me = bodies[blockIdx.x * 256 + threadIdx.x];
  float3 f = {0.f, 0.f, 0.f};
  for (int s = 0; s < count; s += 256) {
    tile[threadIdx.x] = bodies[s + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 256; ++i) {
      const float4 o = tile[i];
      const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
      const float r = __builtin_amdgcn_rsqf(dx * dx + dy * dy + dz * dz + 0.01f), g = o.w * r * r * r;
      f.x += g * dx;
      f.y += g * dy;
      f.z += g * dz;
    }
    __syncthreads();
  }
  forces[blockIdx.x * 256 + threadIdx.x] = {f.x, f.y, f.z, 0.f};
}

// Photons scatter until they are absorbed.
extern "C" __global__ void photon_paths(float* __restrict__ lengths, float absorption, float density) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = i * 747796405u + 2891336453u;
  float length = 0.f, z = 0.f, mu = 1.f;
  bool alive = true;
  while (alive) {
    state = state * 1664525u + 1013904223u;
    const float u = (state >> 8) * 5.9604645e-8f + 1e-7f;
    const float step = -__logf(u) / density;
    length += step;
    z += step * mu;
    state = state * 1664525u + 1013904223u;
    const float v = (state >> 8) * 5.9604645e-8f;
    mu = 2.f * v - 1.f;
    state = state * 1664525u + 1013904223u;
    alive = (state >> 8) * 5.9604645e-8f > absorption && z > -1e6f;
  }
  lengths[i] = length;
}

struct Agent {
  float position[3], velocity[3], energy, age;
  float memory[24];
};

extern "C" __global__ void __launch_bounds__(256) total_energy(const Agent* __restrict__ agents, float* __restrict__ totals) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  float sum = agents[i].energy;
  for (int offset = 32; offset > 0; offset >>= 1) sum += __shfl_xor(sum, offset);
  if ((threadIdx.x & 63) == 0) totals[i / 64] = sum;
}

// A wavefront per cell: its 64 particles meet the list of a neighbouring cell.
extern "C" __global__ void __launch_bounds__(64) cell_list_forces(const int* __restrict__ head, const int* __restrict__ next, const float2* __restrict__ charges, const float* __restrict__ x, float* __restrict__ force) {
  const float mine = x[blockIdx.x * 64 + threadIdx.x];
  float f = 0.f;
  for (int j = head[blockIdx.x]; j >= 0; j = next[j]) {
    const float2 c = charges[j];
    const float d = mine - c.x;
    f += c.y * d * fabsf(d);
  }
  force[blockIdx.x * 64 + threadIdx.x] = f;
}

// A wavefront simulates a chain with 64 observables: the row of the present state decides the next one.
extern "C" __global__ void __launch_bounds__(1024) markov_chains(const unsigned* __restrict__ rows, unsigned* __restrict__ out, int steps, unsigned mask) {
  const int lane = threadIdx.x & 63, chain = (blockIdx.x * 1024 + threadIdx.x) / 64;
  unsigned state = chain * 2654435761u & mask, sum = 0;
  for (int s = 0; s < steps; ++s) {
    const unsigned v = rows[(size_t)state * 64 + lane];
    sum += v;
    state = __builtin_amdgcn_readlane(v, s & 63) & mask;
  }
  out[(size_t)chain * 64 + lane] = sum;
}

// The same with the observables weighted by 120 pairs per lane, which are loaded first.
extern "C" __global__ void __launch_bounds__(256) weighted_chains(const unsigned* __restrict__ rows, const float2* __restrict__ weights, float* __restrict__ out, int steps, unsigned mask) {
  const int lane = threadIdx.x & 63, chain = (blockIdx.x * 256 + threadIdx.x) / 64;
  float2 w[120];
#pragma unroll
  for (int i = 0; i < 120; ++i) w[i] = weights[i * 64 + lane];
  unsigned state = chain * 2654435761u & mask;
  float sum = 0.f;
  for (int s = 0; s < steps; ++s) {
    const unsigned v = rows[(size_t)state * 64 + lane];
    sum += v * 1e-9f;
    state = __builtin_amdgcn_readlane(v, s & 63) & mask;
  }
  float total = 0.f;
#pragma unroll
  for (int i = 0; i < 120; ++i) total = fmaf(w[i].x, sum, total) * w[i].y;
  out[(size_t)chain * 64 + lane] = total;
}

// Reaction rates of a generated mechanism: straight-line code, all constants in it.
template <int I, int N> static __device__ __forceinline__ void reactions(float (&c)[32]) {
  if constexpr (N == 1) {
    constexpr float rate = 1e-9f * (I + 1);
    c[I * 5 % 32] = fmaf(c[(I * 11 + 3) % 32], rate, c[I * 5 % 32]);
  } else {
    reactions<I, N / 2>(c);
    reactions<I + N / 2, N - N / 2>(c);
  }
}
extern "C" __global__ void __launch_bounds__(256) reaction_step(float* __restrict__ species) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)gridDim.x * 256;
  float c[32];
#pragma unroll
  for (int k = 0; k < 32; ++k) c[k] = species[k * n + i];
  reactions<0, 9216>(c);
#pragma unroll
  for (int k = 0; k < 32; ++k) species[k * n + i] = c[k];
}

// Finite differences in time: the Laplacian of order eight along the rows of a field.
extern "C" __global__ void __launch_bounds__(256) laplacian_rows(const float4* __restrict__ u, float4* __restrict__ out, int row4) {
  const size_t i = (size_t)blockIdx.y * row4 + blockIdx.x * 256 + threadIdx.x + 1;
  const float4 l = u[i - 1], m = u[i], r = u[i + 1];
  const float v[12] = {l.x, l.y, l.z, l.w, m.x, m.y, m.z, m.w, r.x, r.y, r.z, r.w};
  float s[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    s[k] = -2.8472f * v[4 + k] + 1.6f * (v[3 + k] + v[5 + k]) - 0.2f * (v[2 + k] + v[6 + k]) + 0.0254f * (v[1 + k] + v[7 + k]) - 0.0018f * (v[k] + v[8 + k]);
  out[i] = {s[0], s[1], s[2], s[3]};
}
