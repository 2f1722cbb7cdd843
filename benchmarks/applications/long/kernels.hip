// Kernels that run for seconds in the emulator, one per run: `kernels NAME [TIMES]`. The exit code is 0 if the result is right.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const hipError_t status = (call);                                                            \
    if (status != hipSuccess) {                                                                  \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, hipGetErrorString(status));     \
      std::exit(EXIT_FAILURE);                                                                   \
    }                                                                                            \
  } while (0)

constexpr int BLOCK = 256;

int times = 1;  // the amount of work

std::vector<void*> allocated;

template <typename T>
T* device_memory(size_t count) {
  T* memory;
  CHECK(hipMalloc(&memory, count * sizeof(T)));
  allocated.push_back(memory);
  return memory;
}

template <typename T>
T* device_copy(const std::vector<T>& values) {
  T* memory = device_memory<T>(values.size());
  CHECK(hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  return memory;
}

template <typename T>
std::vector<T> host_copy(const T* memory, size_t count) {
  std::vector<T> values(count);
  CHECK(hipMemcpy(values.data(), memory, count * sizeof(T), hipMemcpyDeviceToHost));
  return values;
}

// ---- memory: one pass over three arrays ----

__global__ void triad(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) c[i] = a[i] + 3.0f * b[i];
}

bool run_triad() {
  const int n = 1 << 22, passes = 16 * times;
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; i++) a[i] = i % 1000, b[i] = i % 7;
  float *d_a = device_copy(a), *d_b = device_copy(b), *d_c = device_copy(a);
  for (int k = 0; k < passes; k++) triad<<<1024, BLOCK>>>(d_a, d_b, d_c, n);
  const std::vector<float> c = host_copy(d_c, n);
  for (int i = 0; i < n; i++)
    if (c[i] != a[i] + 3.0f * b[i]) return false;
  return true;
}

// ---- memory with reuse: a stencil, neighbours are read by several workgroups ----

__global__ void stencil(const float* in, float* out, int width, int height) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const float* at = in + y * width + x;
  out[y * width + x] = 0.2f * (at[0] + at[-1] + at[1] + at[-width] + at[width]);
}

bool run_stencil() {
  const int width = 1024, height = 1024, passes = 24 * times;
  float *in = device_copy(std::vector<float>(width * height, 2.0f)), *out = device_copy(std::vector<float>(width * height, 2.0f));
  for (int k = 0; k < passes; k++) {
    stencil<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(in, out, width, height);
    std::swap(in, out);
  }
  for (const float value : host_copy(in, width * height))
    if (std::fabs(value - 2.0f) > 1e-4f) return false;
  return true;
}

// ---- LDS and barriers: tiled matrix product ----

__global__ void gemm(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16], right[16][17];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    left[y][x] = a[row * n + k + x];
    right[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int j = 0; j < 16; j++) sum += left[y][j] * right[j][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

bool run_gemm() {
  const int n = 512;
  float *a = device_copy(std::vector<float>(n * n, 2.0f)), *b = device_copy(std::vector<float>(n * n, 0.5f));
  float* c = device_memory<float>(n * n);
  for (int k = 0; k < 4 * times; k++) gemm<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
  for (const float value : host_copy(c, n * n))
    if (value != n) return false;
  return true;
}

// ---- arithmetic ----

__global__ void iterate(float* values, int steps) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  float x = values[i];
  for (int k = 0; k < steps; k++) x = x * 0.5f + 1.0f;
  values[i] = x;
}

bool run_arithmetic() {
  const int n = 1 << 19, steps = 16384 * times;
  float* values = device_copy(std::vector<float>(n, 0.0f));
  iterate<<<n / BLOCK, BLOCK>>>(values, steps);
  for (const float value : host_copy(values, n))
    if (value != 2.0f) return false;
  return true;
}

// ---- atomics in LDS and in memory ----

__global__ void histogram(const unsigned* data, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) atomicAdd(&local[data[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

bool run_histogram() {
  const int n = 1 << 22, passes = 16 * times;
  std::vector<unsigned> data(n);
  for (int i = 0; i < n; i++) data[i] = (i * 2654435761u) >> 13;
  std::vector<unsigned> expected(256, 0);
  for (const unsigned value : data) expected[value & 255] += passes;
  unsigned *d_data = device_copy(data), *bins = device_copy(std::vector<unsigned>(256, 0));
  for (int k = 0; k < passes; k++) histogram<<<256, BLOCK>>>(d_data, bins, n);
  return host_copy(bins, 256) == expected;
}

// ---- irregular accesses ----

__global__ void gather(const int* index, const float* values, float* out, int n) {
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) out[i] = values[index[i]];
}

bool run_gather() {
  const int n = 1 << 21, passes = 8 * times;
  std::vector<int> index(n);
  std::vector<float> values(n);
  for (int i = 0; i < n; i++) index[i] = (i * 2654435761u) % n, values[i] = i % 4096;
  int* d_index = device_copy(index);
  float *d_values = device_copy(values), *out = device_copy(values);
  for (int k = 0; k < passes; k++) gather<<<512, BLOCK>>>(d_index, d_values, out, n);
  const std::vector<float> result = host_copy(out, n);
  for (int i = 0; i < n; i++)
    if (result[i] != values[index[i]]) return false;
  return true;
}

// ---- many short dispatches ----

__global__ void scale(float* values, float by) { values[blockIdx.x * BLOCK + threadIdx.x] *= by; }

bool run_dispatches() {
  const int n = 1 << 12, passes = 40000 * times;
  float* values = device_copy(std::vector<float>(n, 1.0f));
  for (int k = 0; k < passes; k++) scale<<<n / BLOCK, BLOCK>>>(values, k % 2 ? 0.5f : 2.0f);
  for (const float value : host_copy(values, n))
    if (value != 1.0f) return false;
  return true;
}

int main(int count, char** arguments) {
  const struct {
    const char* name;
    bool (*run)();
  } kernels[] = {{"arithmetic", run_arithmetic}, {"dispatches", run_dispatches}, {"gather", run_gather}, {"gemm", run_gemm},
                 {"histogram", run_histogram},   {"stencil", run_stencil},       {"triad", run_triad}};
  for (const auto& kernel : kernels) {
    if (count < 2 || count > 3 || std::strcmp(arguments[1], kernel.name) != 0) continue;
    if (count == 3) times = std::atoi(arguments[2]);
    const bool right = kernel.run();
    for (void* memory : allocated) CHECK(hipFree(memory));
    std::printf("%s: %s\n", kernel.name, right ? "right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  std::fprintf(stderr, "usage: kernels NAME [TIMES]\n");
  return EXIT_FAILURE;
}
