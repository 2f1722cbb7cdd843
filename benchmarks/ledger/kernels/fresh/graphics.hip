// Renderer and game engine kernels: rays, voxels, noise, particles, skinning.
#include <hip/hip_runtime.h>

__device__ inline unsigned pcg(unsigned v) {
  const unsigned state = v * 747796405u + 2891336453u;
  const unsigned word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
  return (word >> 22) ^ word;
}

// March every ray through a homogeneous volume; `samples` is the number of voxels that the ray crosses.
extern "C" __global__ void __launch_bounds__(256) march_rays(const int* __restrict__ samples, float4* __restrict__ colour, float step) {
  const int ray = blockIdx.x * 256 + threadIdx.x;
  const int n = samples[ray];
  float t = 0.f, r = 0.f, g = 0.f, b = 0.f, alpha = 1.f;
  for (int i = 0; i < n; ++i) {
    const float d = t * (1.f - t) + 0.1f * t * t;
    const float a = d * step;
    r += alpha * a * (0.3f + d);
    g += alpha * a * (0.6f - d);
    b += alpha * a * (0.1f + d * d);
    alpha -= alpha * a;
    t = t * 0.999f + step;
  }
  colour[ray] = make_float4(r, g, b, alpha);
}

// Fractal noise: value noise of hashed lattice points, summed over octaves.
__device__ inline float lattice(unsigned x, unsigned y) { return (pcg(x + pcg(y)) >> 8) * (1.f / 16777216.f); }
extern "C" __global__ void __launch_bounds__(256) fractal_noise(float* __restrict__ height, int octaves, float scale) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  float x = (i & 1023) * scale, y = (i >> 10) * scale, sum = 0.f, amplitude = 0.5f;
  for (int o = 0; o < octaves; ++o) {
    const unsigned ix = (unsigned)x, iy = (unsigned)y;
    const float fx = x - ix, fy = y - iy, u = fx * fx * (3.f - 2.f * fx), v = fy * fy * (3.f - 2.f * fy);
    const float a = lattice(ix, iy), b = lattice(ix + 1, iy), c = lattice(ix, iy + 1), d = lattice(ix + 1, iy + 1);
    sum += amplitude * (a + u * (b - a) + v * (c - a + u * (a - b - c + d)));
    amplitude *= 0.5f;
    x *= 2.03f;
    y *= 2.01f;
  }
  height[i] = sum;
}

// A wavefront walks a bounding volume hierarchy: 32 words per node, which are the offsets of its children in bytes.
extern "C" __global__ void __launch_bounds__(256) walk_bvh(const unsigned* __restrict__ nodes, unsigned* __restrict__ hits, int depth, unsigned last) {
  const int lane = threadIdx.x & 63, wave = (blockIdx.x * 256 + threadIdx.x) >> 6;
  const char* tree = reinterpret_cast<const char*>(nodes);
  unsigned node = __builtin_amdgcn_readfirstlane(wave * 40503u % last) * 128u, sum = 0;
#pragma unroll 8
  for (int level = 0; level < depth; ++level) {
    const unsigned word = reinterpret_cast<const unsigned*>(tree + node)[lane & 31];
    sum ^= word;
    node = __builtin_amdgcn_readlane(word, level & 31);
  }
  hits[wave * 64 + lane] = sum;
}

struct Particle {
  float position[3], velocity[3], colour[4], age, mass, spare[12];
};
// Ages of a particle system: one field of a structure of 96 bytes.
extern "C" __global__ void __launch_bounds__(256) oldest_particles(const Particle* __restrict__ particles, float* __restrict__ age) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  age[i] = particles[i].age;
}

// Coverage of objects, a workgroup per object, which is rasterised in rows of 256 samples.
extern "C" __global__ void __launch_bounds__(256) object_coverage(const int* __restrict__ rows, float* __restrict__ coverage) {
  const int n = rows[blockIdx.x];
  float a = threadIdx.x * 0.01f, sum = 0.f;
  for (int row = 0; row < n; ++row) {
#pragma unroll
    for (int edge = 0; edge < 8; ++edge) {
      const float e = a * (0.5f + edge) - row * 0.003f;
      sum += fminf(fmaxf(e, 0.f), 1.f);
    }
    a = a * 0.9999f + 0.0003f;
  }
  coverage[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Dose in tissue: every kind of tissue has its own response.
__device__ inline float series(float x, float a, float b) {
  float s = a;
#pragma unroll 1
  for (int i = 0; i < 12; ++i) {
    s = s * x + b;
    s = s * s * 0.25f + a;
    s = s * x - b * a;
    s = s * 0.5f + x;
  }
  return s;
}
extern "C" __global__ void __launch_bounds__(256) tissue_response(const unsigned char* __restrict__ tissue, float* __restrict__ dose) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float x = (i & 255) * (1.f / 256.f);
  float d = 0.f;
  switch (tissue[i]) {
    case 0: d = series(x, 0.1f, 0.7f) * 2.f; break;
    case 1: d = series(x * x, 0.2f, 0.6f) - x; break;
    case 2: d = series(1.f - x, 0.3f, 0.5f) + x * 3.f; break;
    case 3: d = series(x * 0.5f, 0.4f, 0.4f) * x; break;
    case 4: d = series(x + 0.1f, 0.5f, 0.3f) + 7.f; break;
    case 5: d = series(x * 0.7f, 0.6f, 0.2f) * 5.f - x; break;
    default: d = series(x - 0.3f, 0.7f, 0.1f); break;
  }
  dose[i] = d;
}

// Blend of bone transforms: the palette of an instance is a local array, bones are chosen by index.
extern "C" __global__ void __launch_bounds__(256) skin_vertices(const float* __restrict__ pose, const unsigned* __restrict__ bones, float* __restrict__ out, int influences) {
  const int i = blockIdx.x * 256 + threadIdx.x, n = gridDim.x * 256;
  float palette[72];
#pragma unroll
  for (int k = 0; k < 72; ++k) palette[k] = pose[k * 64 + (i & 63)];
  float x = 0.1f, y = 0.2f, z = 0.3f;
  unsigned which = bones[i];
  for (int k = 0; k < influences; ++k) {
    const int at = (which >> 20) % 6 * 12;
    const float px = palette[at] * x + palette[at + 1] * y + palette[at + 2] * z + palette[at + 3];
    const float py = palette[at + 4] * x + palette[at + 5] * y + palette[at + 6] * z + palette[at + 7];
    const float pz = palette[at + 8] * x + palette[at + 9] * y + palette[at + 10] * z + palette[at + 11];
    palette[at + 3] = px * 0.01f;
    x = px * 0.3f;
    y = py * 0.3f;
    z = pz * 0.3f;
    which = which * 1664525u + 1013904223u;
  }
  out[i] = x;
  out[i + n] = y;
  out[i + 2 * n] = z;
}

// Height of the sea: sum of sines.
extern "C" __global__ void __launch_bounds__(256) ocean_height(const float* __restrict__ phase, float* __restrict__ height, int waves) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float x = phase[i & 65535], h0 = 0.f, h1 = 0.f;
#pragma unroll 4
  for (int w = 0; w < waves; ++w) {
    h0 += __builtin_amdgcn_sinf(x);
    h1 += __builtin_amdgcn_cosf(x * 0.7f);
    x += 0.37f;
  }
  height[i] = h0 + h1;
}

// Draw arguments of the next frame.
extern "C" __global__ void __launch_bounds__(128) next_frame(unsigned* __restrict__ draws, unsigned frame) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  draws[i] = draws[i] * 3u + frame;
}
