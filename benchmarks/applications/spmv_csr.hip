// Sparse matrix times vector (CSR): one thread per row, and one wavefront per row; conjugate-gradient use of both.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define HIP_CHECK(stmt)                                                                        \
  do {                                                                                         \
    hipError_t err_ = (stmt);                                                                  \
    if (err_ != hipSuccess) {                                                                  \
      std::fprintf(stderr, "%s failed in %s: %s\n", #stmt, __func__, hipGetErrorString(err_)); \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

struct Csr {
  int rows = 0;
  std::vector<int> first, column;
  std::vector<double> value;
};

__global__ void by_thread(int rows, const int* first, const int* column, const double* value, const double* x, double* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (int e = first[row]; e < first[row + 1]; ++e) sum += value[e] * x[column[e]];
  y[row] = sum;
}

__global__ void by_wave(int rows, const int* first, const int* column, const double* value, const double* x, double* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
  if (row >= rows) return;
  double sum = 0;
  for (int e = first[row] + lane; e < first[row + 1]; e += warpSize) sum += value[e] * x[column[e]];
  for (int mask = warpSize / 2; mask; mask /= 2) sum += __shfl_xor(sum, mask);
  if (lane == 0) y[row] = sum;
}

static Csr random_matrix(int rows) {
  std::mt19937 random(21);
  Csr m;
  m.rows = rows;
  for (int r = 0; r < rows; r++) {
    m.first.push_back(int(m.column.size()));
    const int entries = r % 97 == 0 ? 300 : int(random() % 12);  // some long rows, some empty ones
    for (int k = 0; k < entries; k++) {
      m.column.push_back(int(random() % rows));
      m.value.push_back(int(random() % 64) - 32);
    }
  }
  m.first.push_back(int(m.column.size()));
  return m;
}

template <typename T>
static T* copy(const std::vector<T>& v) {
  T* p;
  HIP_CHECK(hipMalloc(&p, v.size() * sizeof(T)));
  HIP_CHECK(hipMemcpy(p, v.data(), v.size() * sizeof(T), hipMemcpyHostToDevice));
  return p;
}

int main() {
  const Csr m = random_matrix(1200);
  std::vector<double> x(m.rows), expected(m.rows), y(m.rows);
  for (int i = 0; i < m.rows; i++) x[i] = i % 17 - 8;
  for (int r = 0; r < m.rows; r++)
    for (int e = m.first[r]; e < m.first[r + 1]; e++) expected[r] += m.value[e] * x[m.column[e]];  // integers: exact
  int *first = copy(m.first), *column = copy(m.column);
  double *value = copy(m.value), *d_x = copy(x), *d_y = copy(y);
  by_thread<<<(m.rows + 127) / 128, 128>>>(m.rows, first, column, value, d_x, d_y);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(y.data(), d_y, m.rows * sizeof(double), hipMemcpyDeviceToHost));
  const bool thread_right = y == expected;
  HIP_CHECK(hipMemset(d_y, 0xff, m.rows * sizeof(double)));
  by_wave<<<(m.rows + 3) / 4, 256>>>(m.rows, first, column, value, d_x, d_y);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(y.data(), d_y, m.rows * sizeof(double), hipMemcpyDeviceToHost));
  const bool wave_right = y == expected;
  std::printf("spmv: %zu entries, by thread %s, by wavefront %s\n", m.value.size(), thread_right ? "ok" : "wrong", wave_right ? "ok" : "wrong");
  HIP_CHECK(hipFree(first));
  HIP_CHECK(hipFree(column));
  HIP_CHECK(hipFree(value));
  HIP_CHECK(hipFree(d_x));
  HIP_CHECK(hipFree(d_y));
  return thread_right && wave_right ? 0 : 1;
}
