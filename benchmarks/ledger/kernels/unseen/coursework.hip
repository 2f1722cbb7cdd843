// Assignments of a GPU course: correct, commented by the students.
#include <hip/hip_runtime.h>
#include <math.h>

// Exercise 1: c = a + s * b on doubles, one element per thread
extern "C" __global__ void triad(const double* a, const double* b, double* c, double s) {
  size_t idx = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  c[idx] = a[idx] + s * b[idx];
}

// Exercise 2: matrix product, each thread computes one element, both matrices in global memory, column index on x
extern "C" __global__ void matmul_v0(const float* A, const float* B, float* C, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;  // threads of a warp take different rows
  int col = blockIdx.y;
  float acc = 0;
  for (int k = 0; k < n; k++) acc += A[row * n + k] * B[k * n + col];
  C[row * n + col] = acc;
}

// Exercise 3: dot product, every thread adds its product to the result
extern "C" __global__ void dot_v0(const int* a, const int* b, unsigned long long* result, int per_thread) {
  size_t base = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  size_t step = (size_t)gridDim.x * blockDim.x;
  for (int i = 0; i < per_thread; i++) {
    unsigned long long p = (unsigned long long)(a[base + i * step] * b[base + i * step]);
    atomicAdd(result + (base & 1), p);
  }
}

// Exercise 4: odd-even transposition sort of 512 numbers in shared memory by one warp, the block loads and stores
extern "C" __global__ void sort_block(float* data, int phases) {
  __shared__ float s[512];
  int t = threadIdx.x;
  s[t] = data[blockIdx.x * 512 + t];
  __syncthreads();
  if (t < 64) {
    for (int p = 0; p < phases; p++) {
      for (int k = 0; k < 4; k++) {
        int i = 2 * (t + 64 * k) + (p & 1);
        if (i + 1 < 512) {
          float x = s[i], y = s[i + 1];
          s[i] = fminf(x, y);
          s[i + 1] = fmaxf(x, y);
        }
      }
    }
  }
  __syncthreads();
  data[blockIdx.x * 512 + t] = s[t];
}

// Exercise 5: game of life, one byte per cell, a thread computes several cells of a column
extern "C" __global__ void life_step(const unsigned char* in, unsigned char* out, int w, int rows) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  for (int r = 0; r < rows; r++) {
    int y = blockIdx.y * rows + r + 1;
    int n = in[(y - 1) * w + x - 1] + in[(y - 1) * w + x] + in[(y - 1) * w + x + 1];
    n += in[y * w + x - 1] + in[y * w + x + 1];
    n += in[(y + 1) * w + x - 1] + in[(y + 1) * w + x] + in[(y + 1) * w + x + 1];
    int self = in[y * w + x];
    out[y * w + x] = n == 3 || (n == 2 && self);
  }
}

// Exercise 6: numerical integration of sin(x) * exp(-x), few blocks, many samples per thread
extern "C" __global__ void integrate(float* partial, float h, int samples) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < samples; i++) {
    float x = (idx * samples + i) * h;
    sum += __sinf(x) * __expf(-x);
  }
  partial[idx] = sum * h;
}

// Exercise 7: square matrices of 16 x 16 in shared memory, threads read columns of the second one as rows
extern "C" __global__ void small_products(const double* A, const double* B, double* C) {
  __shared__ double a[4][16][16], b[4][16][16];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16 % 16;
  for (int m = 0; m < 4; m++) {
    a[m][ty][tx] = A[((size_t)blockIdx.x * 4 + m) * 256 + threadIdx.x];
    b[m][ty][tx] = B[((size_t)blockIdx.x * 4 + m) * 256 + threadIdx.x];
  }
  __syncthreads();
  for (int m = 0; m < 4; m++) {
    double s = 0;
    for (int r = 0; r < 4; r++)
      for (int k = 0; k < 16; k++) s += a[m][ty][(k + r) % 16] * b[m][tx][k];
    C[((size_t)blockIdx.x * 4 + m) * 256 + threadIdx.x] = s;
  }
}

// Exercise 8: longest hailstone sequence below a limit
extern "C" __global__ void hailstone(unsigned* lengths, unsigned first) {
  unsigned idx = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long n = first + idx * 2654435761ull % 1000003ull;
  unsigned length = 1;
  while (n != 1) {
    n = n & 1 ? 3 * n + 1 : n >> 1;
    length++;
  }
  lengths[idx] = length;
}

// Exercise 9: permutation of the axes of a 5-dimensional tensor, sizes as arguments
extern "C" __global__ void tensor_pad(const float* in, float* out, size_t total, size_t d1, size_t d2, size_t d3, size_t d4, size_t pad) {
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (size_t)gridDim.x * blockDim.x) {
    size_t rest = i;
    size_t l = rest % d4; rest /= d4;
    size_t k = rest % d3; rest /= d3;
    size_t j = rest % d2; rest /= d2;
    size_t h = rest % d1; rest /= d1;
    out[i] = in[(((rest * d1 + h) * d2 + j) * d3 + k) * (d4 + pad) + l];
  }
}

// Exercise 10: maximum of an array, first attempt: one block
extern "C" __global__ void maximum_v0(const float* x, float* result, int n) {
  __shared__ float s[1024];
  float m = x[threadIdx.x];
  for (int i = threadIdx.x; i < n; i += 1024) m = fmaxf(m, x[i]);
  s[threadIdx.x] = m;
  __syncthreads();
  for (int k = 512; k > 0; k /= 2) {
    if (threadIdx.x < k) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + k]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = s[0];
}

// Exercise 11: Nussinov-like chain: each row of the table needs the row before, rows stay in L2
extern "C" __global__ void chain_rows(const int* cost, int* out, int rows, int width) {
  int lane = threadIdx.x % 64, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 64;
  int row = warp % width, sum = 0;
  for (int r = 0; r < rows; r++) {
    int c = cost[row * 64 + lane];
    sum += c;
    row = __shfl(c, r & 63) & (width - 1);  // the next row is in the table
  }
  out[warp * 64 + lane] = sum;
}

// Exercise 12: polynomial fit, 224 coefficients kept in registers while the samples are followed
extern "C" __global__ void __launch_bounds__(256) follow_samples(const int* next, const float* coefficients, float* out, int steps, int width) {
  int lane = threadIdx.x % 64, warp = (blockIdx.x * 256 + threadIdx.x) / 64;
  float c[224];
#pragma unroll
  for (int i = 0; i < 224; i++) c[i] = coefficients[i * 64 + lane];
  int row = warp % width;
  float x = 0;
  for (int s = 0; s < steps; s++) {
    int v = next[row * 64 + lane];
    x += v * 1e-9f;
    row = __shfl(v, s & 63) & (width - 1);
  }
  float y = 0;
#pragma unroll
  for (int i = 0; i < 224; i++) y = y * x + c[i];
  out[warp * 64 + lane] = y;
}

// Exercise 13: blocks take as long as their number says (work items are sorted by cost, cheap ones first)
extern "C" __global__ void sorted_jobs(const int* cost, float* out) {
  float x = threadIdx.x * 0.001f;
  int n = cost[blockIdx.x];
  for (int i = 0; i < n; i++) {
#pragma unroll
    for (int k = 0; k < 32; k++) x = x * 0.999f + 0.001f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
