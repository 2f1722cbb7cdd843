#include <hip/hip_runtime.h>

__device__ __attribute__((noinline)) int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(const int* n, int* out) { out[threadIdx.x] = fibonacci(n[threadIdx.x]); }

__device__ __attribute__((noinline)) unsigned is_odd(unsigned n);
__device__ __attribute__((noinline)) unsigned is_even(unsigned n) { return n == 0 ? 1 : is_odd(n - 1) ^ (n >> 31); }
__device__ __attribute__((noinline)) unsigned is_odd(unsigned n) { return n == 0 ? 0 : is_even(n - 1); }
extern "C" __global__ void mutual_recursion(const int* n, int* out) { out[threadIdx.x] = is_even(n[threadIdx.x]); }

__device__ __attribute__((noinline)) int add_them(int a, int b) { return a + b; }
__device__ __attribute__((noinline)) int subtract_them(int a, int b) { return a - b; }
__device__ __attribute__((noinline)) int multiply_them(int a, int b) { return a * b; }
__device__ __attribute__((noinline)) int divide_them(int a, int b) { return b ? a / b : -1; }
typedef int (*operation)(int, int);
__device__ operation operations[4] = {add_them, subtract_them, multiply_them, divide_them};
extern "C" __global__ void function_pointers(const int* a, const int* b, int* out) {
  int i = threadIdx.x;
  out[i] = operations[(i * 7 + 1) & 3](a[i], b[i]);   // divergent
  out[i + blockDim.x] = operations[blockIdx.x & 3](a[i], b[i]);  // uniform
}

struct shape {
  __device__ virtual float area() const = 0;
  float a, b;
};
struct square : shape { __device__ float area() const override { return a * a; } };
struct rectangle : shape { __device__ float area() const override { return a * b; } };
extern "C" __global__ void virtual_calls(const float* a, float* out) {
  square s;
  rectangle r;
  s.a = r.a = a[threadIdx.x];
  s.b = r.b = 3;
  const shape* chosen = threadIdx.x % 3 == 0 ? (const shape*)&s : &r;
  out[threadIdx.x] = chosen->area();
}

struct big { double x[6]; int y[5]; };
__device__ __attribute__((noinline)) big twist(big in, int by) {
  big out;
  for (int i = 0; i < 6; i++) out.x[i] = in.x[(i + by) % 6] * by;
  for (int i = 0; i < 5; i++) out.y[i] = in.y[4 - i] - by;
  return out;
}
extern "C" __global__ void structs_by_value(big in, double* out, int* out2) {
  big b = twist(twist(in, threadIdx.x & 3), threadIdx.x);
  for (int i = 0; i < 6; i++) out[threadIdx.x * 6 + i] = b.x[i];
  for (int i = 0; i < 5; i++) out2[threadIdx.x * 5 + i] = b.y[i];
}

__device__ __attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m,
                                              int n, int o, int p, int q, int r, int s, int t, int u, int v, int w, int x, int y, int z,
                                              int a1, int b1, int c1, int d1, int e1, int f1, int g1, int h1) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + 13 * m + 14 * n + 15 * o + 16 * p +
         17 * q + 18 * r + 19 * s + 20 * t + 21 * u + 22 * v + 23 * w + 24 * x + 25 * y + 26 * z + 27 * a1 + 28 * b1 + 29 * c1 + 30 * d1 +
         31 * e1 + 32 * f1 + 33 * g1 + 34 * h1;
}
extern "C" __global__ void stack_arguments(int* out) {
  int t = threadIdx.x;
  out[t] = many(t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, t + 7, t + 8, t + 9, t + 10, t + 11, t + 12, t + 13, t + 14, t + 15, t + 16, t + 17,
                t + 18, t + 19, t + 20, t + 21, t + 22, t + 23, t + 24, t + 25, t + 26, t + 27, t + 28, t + 29, t + 30, t + 31, t + 32, t + 33);
}

extern "C" __global__ void private_arrays(const int* x, int* out, int n) {
  int stack[64], depth = 0;
  for (int i = 0; i < n; i++) {
    int v = x[(threadIdx.x + i) & 63];
    if (v & 1 && depth < 63) stack[depth++] = v;
    else if (depth) depth -= 1 + (v & 2 && depth > 1);
  }
  int sum = depth;
  for (int i = 0; i < depth; i++) sum = sum * 31 + stack[i];
  short histogram[16] = {};
  for (int i = 0; i < n; i++) histogram[(x[i] + threadIdx.x) & 15] += i;
  for (int i = 0; i < 16; i++) sum ^= histogram[i] << i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void register_arrays(const float* x, float* out, int rotate) {  // small enough for registers
  typedef float float16v __attribute__((ext_vector_type(16)));
  float16v v;
  for (int i = 0; i < 16; i++) v[i] = x[threadIdx.x * 16 + i];
  v[rotate] = -1.0f;                       // uniform
  v[threadIdx.x & 15] += 100.0f;           // divergent
  float sum = v[(rotate + 3) & 15] * 2 + v[(threadIdx.x * 5) & 15];
  v[(threadIdx.x * 3 + rotate) & 15] = sum;
  for (int i = 0; i < 16; i++) out[threadIdx.x * 16 + i] = v[i];
}

extern "C" __global__ void switches(const int* x, int* out) {
  int v = x[threadIdx.x], r = 0;
  switch (v & 15) {
    case 0: r = v * 3; break;
    case 1: r = v ^ 0x55; break;
    case 2: r = v >> 3;  // falls through
    case 3: r += v << 2; break;
    case 4: case 5: for (int i = 0; i < (v & 7); i++) r += i * v; break;
    case 6: r = -v; break;
    case 7: r = v % 13; break;
    case 9: r = v / 3; break;
    case 12: out[threadIdx.x] = 77; return;
    case 15: while (v > 1) { v = v & 1 ? 3 * v + 1 : v >> 1; if (++r > 200) break; } break;
    default: r = 1000;
  }
  out[threadIdx.x] = r;
}

extern "C" __global__ void uniform_switch(int* out, int which) {
  int t = threadIdx.x, r;
  switch (which) {
    case 0: r = t; break;
    case 1: r = t * t; break;
    case 2: r = ~t; break;
    case 3: r = t << 4; break;
    case 4: r = t % 5; break;
    case 5: r = __popc(t); break;
    case 6: r = t ? 1000 / t : 0; break;
    default: r = -1;
  }
  out[blockIdx.x * blockDim.x + t] = r;
}

extern "C" __global__ void mandelbrot(int* out, int width, int limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  int cr = (x * 3 << 12) / width - (2 << 12), ci = (y * 2 << 12) / width - (1 << 12), zr = 0, zi = 0, n = 0;  // 12 fraction bits
  while (n < limit) {
    int r2 = zr * zr >> 12, i2 = zi * zi >> 12;
    if (r2 + i2 > (4 << 12)) break;
    zi = (zr * zi >> 11) + ci;
    zr = r2 - i2 + cr;
    n++;
  }
  out[y * width + x] = n;
}

extern "C" __global__ void loops_with_exits(const int* x, int* out, int n) {
  int t = threadIdx.x, found = -1, skipped = 0;
  for (int i = 0; i < n; i++) {
    int v = x[(t * 13 + i) % n];
    if (v % 3 == 0) {
      skipped++;
      continue;
    }
    for (int j = 0; j < 10; j++) {
      if ((v + j) % 7 == t % 7) goto next;
      if ((v * j) % 11 == 5) {
        found = i * 100 + j;
        goto done;
      }
    }
    if (skipped > 12) return;
  next:;
  }
done:
  out[t] = found + skipped * 10000;
}

extern "C" __global__ void clocks(long long* out, int spin) {
  long long start = clock64(), wall = wall_clock64();
  __builtin_amdgcn_s_setprio(3);
  __builtin_amdgcn_s_sleep(2);
  while (clock64() - start < spin) __builtin_amdgcn_s_sleep(1);
  __syncthreads();
  __builtin_amdgcn_s_setprio(0);
  long long end = clock64();
  out[threadIdx.x] = end - start >= spin;
  out[blockDim.x + threadIdx.x] = wall_clock64() >= wall;
}

extern "C" __global__ void fences(volatile int* data, int* out) {  // one wave hands over to the other, in order
  int t = threadIdx.x & 63;
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 64) {
    data[t] = t * 3;
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    if (t == 0) flag = 1;
  } else {
    while (flag == 0) {}
    __threadfence();
    out[t] = data[63 - t];
  }
}

extern "C" __global__ void heap_of_lds(const int* x, int* out, int n) {  // dynamic LDS, two arrays in it
  extern __shared__ char pool[];
  int* keys = (int*)pool;
  short* order = (short*)(pool + n * sizeof(int));
  keys[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  int rank = 0;
  for (int i = 0; i < n; i++) rank += keys[i] < keys[threadIdx.x] || (keys[i] == keys[threadIdx.x] && i < threadIdx.x);
  order[rank] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = keys[order[threadIdx.x]];
}

extern "C" __global__ void generic_pointers(const int* x, int* out, int choice) {  // FLAT: device memory, LDS or scratch
  __shared__ int shared[64];
  int local[4] = {x[threadIdx.x], 5, 6, 7};
  shared[threadIdx.x] = x[threadIdx.x] * 2;
  __syncthreads();
  int* where[3] = {out, shared, local};
  int* p = where[(threadIdx.x + choice) % 3];
  int at = (threadIdx.x + choice) % 3 == 2 ? threadIdx.x & 3 : (int)threadIdx.x;
  p[at] += 1;
  __syncthreads();
  out[64 + threadIdx.x] = p[at] + local[threadIdx.x & 3];
}
