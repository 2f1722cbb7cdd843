#include <hip/hip_runtime.h>

// Kernels added for the causes that a thread trace alone had left undecided.

// Iterations until a point leaves the Mandelbrot set.
extern "C" __global__ void escape_times(const float2* __restrict__ points, unsigned* __restrict__ out, int most) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float2 c = points[i];
  float x = 0.f, y = 0.f;
  int n = 0;
  while (n < most && x * x + y * y < 4.f) {
    const float t = x * x - y * y + c.x;
    y = 2.f * x * y + c.y;
    x = t;
    ++n;
  }
  out[i] = n;
}

// Messages of six kinds, each with its own checksum.
extern "C" __global__ void check_messages(const unsigned* __restrict__ messages, unsigned* __restrict__ sums, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = messages[i], s = v;
  const unsigned kind = v % 6;
  switch (kind) {
    case 0: for (int r = 0; r < rounds; ++r) s = (s ^ v) * 16777619u; break;
    case 1: for (int r = 0; r < rounds; ++r) s = s * 33u + (v >> (r & 15)); break;
    case 2: for (int r = 0; r < rounds; ++r) s = (s << 5 | s >> 27) + v * 3u; break;
    case 3: for (int r = 0; r < rounds; ++r) { s += v; s ^= s << 10; s ^= s >> 6; } break;
    case 4: for (int r = 0; r < rounds; ++r) s = (s << 1) ^ (s >> 31 ? 0x04c11db7u : 0u) ^ v; break;
    default: for (int r = 0; r < rounds; ++r) s = (s + (v | 1u)) * (s | 5u); break;
  }
  sums[i] = s;
}

// Polynomial in a guarded loop: every lane takes every branch.
extern "C" __global__ void guarded_series(const float* __restrict__ x, float* __restrict__ out, int count, int terms) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    float s = 0.f;
    const float v = x[i];
    for (int k = 0; k < terms; ++k) {
      if (v > 0.01f) {
        float t = v;
#pragma unroll
        for (int j = 0; j < 24; ++j) t = fmaf(t, v, 0.25f);
        s += t;
      }
    }
    out[i] = s;
  }
}

// Slots of a table are claimed with compare-and-swap; most keys are the same.
extern "C" __global__ void claim_slots(const unsigned* __restrict__ keys, unsigned* __restrict__ table, unsigned* __restrict__ place, unsigned mask) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned slot = keys[i] & mask;
  place[i] = atomicAdd(&table[slot], 1u);
}

// Scores per class, of few classes.
extern "C" __global__ void class_scores(const unsigned char* __restrict__ classes, const float* __restrict__ scores, float* __restrict__ sums, int each) {
  const int begin = blockIdx.x * blockDim.x * each + threadIdx.x;
  for (int k = 0; k < each; ++k) {
    const int i = begin + k * blockDim.x;
    atomicAdd(&sums[classes[i]], scores[i]);
  }
}

// Documents of different lengths, a workgroup each; the longest one is one of the last.
extern "C" __global__ void __launch_bounds__(256) count_words(const int* __restrict__ starts, const unsigned* __restrict__ text, int* __restrict__ words) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  int n = 0;
  for (int i = starts[blockIdx.x] + threadIdx.x; i < starts[blockIdx.x + 1]; i += 256) n += (text[i] & 255u) == 32u;
  if (n) atomicAdd(&found, n);
  __syncthreads();
  if (threadIdx.x == 0) words[blockIdx.x] = found;
}

// Integrals whose cost depends on the workgroup: the later, the more samples.
extern "C" __global__ void __launch_bounds__(256) refine_cells(float* __restrict__ out, int step) {
  const int samples = 8 + blockIdx.x * blockIdx.x / step;
  float s = 0.f, x = threadIdx.x * 0.001f + 0.1f;
  for (int k = 0; k < samples; ++k) {
#pragma unroll
    for (int j = 0; j < 16; ++j) x = fmaf(x, 0.99f, 0.003f);
    s += x;
  }
  out[blockIdx.x * 256 + threadIdx.x] = s;
}

// Linear congruences: a chain of dependent multiplications per lane, few wavefronts.
extern "C" __global__ void __launch_bounds__(256) chained_modulus(const unsigned* __restrict__ seeds, unsigned* __restrict__ out, int length) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float a = seeds[i] * 1e-9f;
  for (int k = 0; k < length; ++k) a = __builtin_amdgcn_sqrtf(a * a + 1.f) - __builtin_amdgcn_rcpf(a + 1.f);
  out[i] = a > 1.f;
}

// Lists of particles: every lane of a wavefront reads the same node, which names the next one.
extern "C" __global__ void __launch_bounds__(512) follow_links(const uint2* __restrict__ nodes, unsigned* __restrict__ out, int steps, unsigned mask) {
  unsigned at = (blockIdx.x * 8 + threadIdx.x / 64) * 977u & mask, sum = 0;
  for (int k = 0; k < steps; ++k) {
    const uint2 node = nodes[(at + (threadIdx.x & 63)) & mask];
    sum += node.y;
    at = (node.x ^ sum) & mask;
    at = __shfl(at, 0);
  }
  out[blockIdx.x * 512 + threadIdx.x] = sum;
}

// Copies a matrix in tiles of one row of 256 floats, two rows in flight.
extern "C" __global__ void __launch_bounds__(256) scale_rows(const float4* __restrict__ x, float4* __restrict__ y, float factor, int rows) {
  for (int r = 0; r < rows; ++r) {
    const size_t i = ((size_t)blockIdx.x * rows + r) * 256 + threadIdx.x;
    float4 v = x[i];
    v.x *= factor; v.y *= factor; v.z *= factor; v.w *= factor;
    y[i] = v;
  }
}

// Sums over 8 rows of 64 KiB that every workgroup reads.
extern "C" __global__ void __launch_bounds__(256) shared_codebook(const float4* __restrict__ book, const int* __restrict__ at, float4* __restrict__ out, int rows) {
  float4 s = {0, 0, 0, 0};
  for (int r = 0; r < rows; r += 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float4 v = book[(size_t)at[(blockIdx.x * rows + r + k) & 8191] * 256 + threadIdx.x];
      s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;
    }
  }
  out[blockIdx.x * 256 + threadIdx.x] = s;
}
