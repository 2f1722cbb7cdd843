// Sparse matrix times vector through iterators: the array of row offsets has no final element.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdint>
#include <vector>

template <class T>
struct Span {
  T *first;
  size_t count;
  __host__ __device__ T &operator[](size_t i) const { return first[i]; }
};

struct Sparse {
  Span<const uint32_t> offsets, columns;
  Span<const double> values;
};

__global__ void apply(Sparse matrix, Span<const double> x, Span<double> y) {
  for (size_t row = blockIdx.x * blockDim.x + threadIdx.x; row < y.count; row += size_t(gridDim.x) * blockDim.x) {
    double sum = 0;
    for (uint32_t k = matrix.offsets[row]; k < matrix.offsets[row + 1]; ++k)  // DEFECT out_of_bounds
      sum += matrix.values[k] * x[matrix.columns[k]];
    y[row] = sum;
  }
}

template <class T>
static Span<T> upload(const std::vector<T> &host) {
  void *memory = nullptr;
  if (hipMalloc(&memory, host.size() * sizeof(T)) != hipSuccess) std::abort();
  if (hipMemcpy(memory, host.data(), host.size() * sizeof(T), hipMemcpyHostToDevice) != hipSuccess) std::abort();
  return {static_cast<T *>(memory), host.size()};
}
template <class T>
static Span<const T> read_only(Span<T> s) { return {s.first, s.count}; }

int main() {
  std::vector<uint32_t> offsets, columns;
  std::vector<double> values;
  for (uint32_t row = 0; row < 384; ++row) {
    offsets.push_back(uint32_t(columns.size()));
    if (row + 1 < 384) columns.push_back(row), values.push_back(2);
  }
  auto a = upload(offsets), b = upload(columns);
  auto c = upload(values), x = upload(std::vector<double>(384, 1)), y = upload(std::vector<double>(384, 0));
  apply<<<3, 128>>>(Sparse{read_only(a), read_only(b), read_only(c)}, read_only(x), y);
  double result = 0;
  if (hipMemcpy(&result, y.first, sizeof result, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%g\n", result);
  for (void *p : {(void *)a.first, (void *)b.first, (void *)c.first, (void *)x.first, (void *)y.first}) (void)hipFree(p);
}
