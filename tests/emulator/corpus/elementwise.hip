#include <hip/hip_runtime.h>

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void copy(const float* __restrict__ in, float* __restrict__ out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];
}

extern "C" __global__ void copy4(const float4* __restrict__ in, float4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

extern "C" __global__ void copy_bytes(const unsigned char* in, signed char* out, const short* in2, unsigned short* out2, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    out[i] = in[i] + 1;
    out2[i] = in2[n - 1 - i] >> 2;
  }
}

struct float3s { float x, y, z; };
extern "C" __global__ void swap_components(const float3s* in, float3s* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = {in[i].z, -in[i].x, in[i].y * 2.0f};
}

struct __attribute__((packed)) packed_parameters {
  char tag;
  double scale;
  short offset;
  float table[3];
  unsigned char last;
};
extern "C" __global__ void packed_struct(packed_parameters p, double* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = p.scale * i + p.offset + p.table[i % 3] + p.tag * 1000 + p.last;
}

extern "C" __global__ void __launch_bounds__(60) coordinates(int* out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < nx && y < ny && z < nz) out[(z * ny + y) * nx + x] = x + 100 * y + 10000 * z;
}

extern "C" __global__ void stencil(const float* in, float* out, int width, int height) {
  __shared__ float tile[10][34];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  for (int ty = threadIdx.y; ty < 10; ty += 8)
    for (int tx = threadIdx.x; tx < 34; tx += 32) {
      int gx = min(max((int)blockIdx.x * 32 + tx - 1, 0), width - 1), gy = min(max((int)blockIdx.y * 8 + ty - 1, 0), height - 1);
      tile[ty][tx] = in[gy * width + gx];
    }
  __syncthreads();
  if (x >= width || y >= height) return;
  int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  out[y * width + x] = 0.5f * tile[ty][tx] + 0.125f * (tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1]);
}

extern "C" __global__ void transpose_naive(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void transpose_padded(const double* in, double* out, int n) {
  __shared__ double tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void pointer_chase(const int* next, int* out, int steps) {
  int at = threadIdx.x;
  for (int i = 0; i < steps; i++) at = next[at];
  out[threadIdx.x] = at;
}

struct node { node* next; long value; };
extern "C" __global__ void linked_list(const int* order, int* out, int n) {
  __shared__ node nodes[32];
  if (threadIdx.x == 0) {
    for (int i = 0; i < n; i++) nodes[order[i]] = {i + 1 < n ? &nodes[order[i + 1]] : nullptr, i};
    int sum = 0, depth = 0;
    for (node* at = &nodes[order[0]]; at; at = at->next) sum += at->value * ++depth;
    *out = sum;
  }
}

__constant__ float coefficients[4] = {1.0f, -0.5f, 0.25f, 2.0f};
__device__ unsigned visits[2] = {7, 9};
extern "C" __global__ void globals(const float* in, float* out, unsigned* seen) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = in[i], y = 0;
  for (int k = 0; k < 4; k++) y = y * x + coefficients[k];
  out[i] = y * coefficients[i & 3];
  atomicAdd(&visits[i & 1], 1u);
  __threadfence();
  if (threadIdx.x == 0 && blockIdx.x == 0) seen[0] = coefficients[0] == 1.0f ? visits[0] >= 7 : 0;
}
