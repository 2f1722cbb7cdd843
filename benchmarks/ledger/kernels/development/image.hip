#include <hip/hip_runtime.h>

// Image and signal processing.

// 5 x 5 box filter of an 8-bit image with a step of two pixels (second level of an a-trous pyramid).
extern "C" __global__ void box_filter_8(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int pitch) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  unsigned sum = 0;
#pragma unroll
  for (int dy = 0; dy < 5; ++dy)
#pragma unroll
    for (int dx = 0; dx < 5; ++dx) sum += in[(y + 2 * dy) * pitch + x + 2 * dx];
  out[y * pitch + x] = sum * 2622 >> 16;
}

// Colour grading with a table of 32^3 entries, trilinear.
extern "C" __global__ void grade(const uchar4* __restrict__ in, const float4* __restrict__ table, uchar4* __restrict__ out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const uchar4 p = in[i];
  const float scale = 30.99f / 255.f;
  const float r = p.x * scale, g = p.y * scale, b = p.z * scale;
  const int ri = (int)r, gi = (int)g, bi = (int)b;
  const float fr = r - ri, fg = g - gi, fb = b - bi;
  float3 sum = {0.f, 0.f, 0.f};
#pragma unroll
  for (int corner = 0; corner < 8; ++corner) {
    const int dr = corner & 1, dg = corner >> 1 & 1, db = corner >> 2;
    const float weight = (dr ? fr : 1 - fr) * (dg ? fg : 1 - fg) * (db ? fb : 1 - fb);
    const float4 c = table[((bi + db) * 32 + gi + dg) * 32 + ri + dr];
    sum.x += weight * c.x;
    sum.y += weight * c.y;
    sum.z += weight * c.z;
  }
  out[i] = {(unsigned char)(sum.x * 255.f), (unsigned char)(sum.y * 255.f), (unsigned char)(sum.z * 255.f), p.w};
}

extern "C" __global__ void luminance_histogram(const uchar4* __restrict__ in, unsigned* __restrict__ bins) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const uchar4 p = in[i];
  atomicAdd(&bins[(p.x * 77 + p.y * 150 + p.z * 29) >> 8], 1u);
}

// Bilateral filter of radius 3; the tile with its border is in LDS.
extern "C" __global__ void __launch_bounds__(256) bilateral(const float* __restrict__ in, float* __restrict__ out, int pitch, float spatial, float range) {
  __shared__ float tile[22][24];
  const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, x0 = blockIdx.x * 16, y0 = blockIdx.y * 16;
  for (int i = threadIdx.x; i < 22 * 22; i += 256) tile[i / 22][i % 22] = in[(y0 + i / 22) * pitch + x0 + i % 22];
  __syncthreads();
  const float centre = tile[ty + 3][tx + 3];
  float sum = 0.f, total = 0.f;
#pragma unroll
  for (int dy = 0; dy < 7; ++dy)
#pragma unroll
    for (int dx = 0; dx < 7; ++dx) {
      const float v = tile[ty + dy][tx + dx], d = v - centre;
      const float weight = __expf(d * d * range + ((dx - 3) * (dx - 3) + (dy - 3) * (dy - 3)) * spatial);
      sum += weight * v;
      total += weight;
    }
  out[(y0 + ty) * pitch + x0 + tx] = sum / total;
}

// Median of a 7 x 7 window by insertion.
extern "C" __global__ void median_49(const float* __restrict__ in, float* __restrict__ out, int pitch) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  float window[49];
  int count = 0;
#pragma unroll 1
  for (int dy = 0; dy < 7; ++dy)
#pragma unroll 1
    for (int dx = 0; dx < 7; ++dx) {
      const float v = in[(y + dy) * pitch + x + dx];
      int at = count++;
#pragma unroll 1
      while (at > 0 && window[at - 1] > v) {
        window[at] = window[at - 1];
        --at;
      }
      window[at] = v;
    }
  out[y * pitch + x] = window[24];
}

// Joint histogram of two images with 112 x 128 bins in LDS, one per workgroup.
extern "C" __global__ void __launch_bounds__(64) joint_histogram(const int* __restrict__ bins_of_pairs, unsigned* __restrict__ out, int count) {
  __shared__ unsigned bins[14336];
  for (int i = threadIdx.x; i < 14336; i += 64) bins[i] = 0;
  __syncthreads();
  const int* mine = bins_of_pairs + (size_t)blockIdx.x * count;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += 64) atomicAdd(&bins[mine[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 14336; i += 64)
    if (bins[i]) atomicAdd(&out[i], bins[i]);
}

// Cuts the middle out of every plane of a batch, for any sizes.
extern "C" __global__ void crop_batch(const unsigned short* __restrict__ in, unsigned short* __restrict__ out, long total, long height, long width, long in_height, long in_width) {
  for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (long)gridDim.x * blockDim.x) {
    const long x = i % width, y = i / width % height, plane = i / width / height;
    out[i] = in[(plane * in_height + y + (in_height - height) / 2) * in_width + x + (in_width - width) / 2];
  }
}

// Quantisation levels of groups of 64 values by Lloyd's method; the workgroup loads and encodes, its first wavefront iterates.
extern "C" __global__ void __launch_bounds__(1024) quantise_groups(const float* __restrict__ in, unsigned char* __restrict__ out, int groups, int iterations) {
  __shared__ float values[1024], levels[16];
  const int lane = threadIdx.x & 63;
  for (int g = 0; g < groups; ++g) {
    const size_t at = ((size_t)blockIdx.x * groups + g) * 1024 + threadIdx.x;
    values[threadIdx.x] = in[at];
    __syncthreads();
    if (threadIdx.x < 64) {
      float level = lane * (1.f / 15.f);
      for (int r = 0; r < iterations; ++r) {
        float sum = 0.f, weight = 1e-6f;
#pragma unroll 8
        for (int i = 0; i < 64; ++i) {
          const float v = values[i * 16 + (lane & 15)], d = v - level, w = 1.f / (1.f + 100.f * d * d);
          sum += w * v;
          weight += w;
        }
        level = sum / weight;
      }
      if (lane < 16) levels[lane] = level;
    }
    __syncthreads();
    float best = 1e30f;
    int code = 0;
    for (int i = 0; i < 16; ++i) {
      const float d = fabsf(values[threadIdx.x] - levels[i]);
      if (d < best) { best = d; code = i; }
    }
    out[at] = code;
    __syncthreads();
  }
}
