// Tiled matrix product in a class template. The barrier after the inner product is missing: the next tile overwrites the one in use.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

template <typename Element, int Tile>
class MatrixProduct {
 public:
  struct Operands {
    const Element *a, *b;
    Element *c;
    int size;
  };

  __device__ static void run(const Operands &operands) {
    __shared__ Element left[Tile][Tile], right[Tile][Tile + 1];
    const int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
    Element sum{};
    for (int k = 0; k < operands.size; k += Tile) {
      left[threadIdx.y][threadIdx.x] = operands.a[row * operands.size + k + threadIdx.x];       // DEFECT lds_race
      right[threadIdx.y][threadIdx.x] = operands.b[(k + threadIdx.y) * operands.size + column];  // DEFECT lds_race
      __syncthreads();
      for (int i = 0; i < Tile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];  // DEFECT lds_race
    }
    operands.c[row * operands.size + column] = sum;
  }
};

template <typename Product>
__global__ void __launch_bounds__(256) multiply(typename Product::Operands operands) {
  Product::run(operands);
}

int main() {
  using Product = MatrixProduct<float, 16>;
  constexpr int n = 64;
  std::vector<float> ones(n * n, 1.0f), result(n * n);
  Product::Operands operands{};
  float *a = nullptr, *b = nullptr;
  if (hipMalloc(&a, n * n * sizeof(float)) || hipMalloc(&b, n * n * sizeof(float)) || hipMalloc(&operands.c, n * n * sizeof(float))) return 2;
  if (hipMemcpy(a, ones.data(), n * n * sizeof(float), hipMemcpyHostToDevice)) return 2;
  if (hipMemcpy(b, ones.data(), n * n * sizeof(float), hipMemcpyHostToDevice)) return 2;
  operands.a = a;
  operands.b = b;
  operands.size = n;
  multiply<Product><<<dim3(n / 16, n / 16), dim3(16, 16)>>>(operands);
  if (hipMemcpy(result.data(), operands.c, n * n * sizeof(float), hipMemcpyDeviceToHost)) return 2;
  std::printf("%g\n", result[5]);
  return hipFree(a) || hipFree(b) || hipFree(operands.c);
}
