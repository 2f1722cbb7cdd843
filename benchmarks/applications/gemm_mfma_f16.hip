// Matrix cores, half precision with sums in single precision: tiles through LDS, 16x16x16 per instruction.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

using half4 = _Float16 __attribute__((ext_vector_type(4)));
using float4v = float __attribute__((ext_vector_type(4)));

// A workgroup of four wavefronts computes 32x32 elements of C = A * B^T.
__global__ void __launch_bounds__(256) gemm_nt(const _Float16* a, const _Float16* b, float* c, int n, int k) {
  __shared__ _Float16 as[32][20], bs[32][20];  // rows of 16 values, padded against bank conflicts
  const int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  const int row = blockIdx.y * 32, column = blockIdx.x * 32, at = lane % 16, group = lane / 16;
  float4v sum = {0, 0, 0, 0};
  for (int first = 0; first < k; first += 16) {
    for (int i = threadIdx.x; i < 32 * 16; i += 256) {
      as[i / 16][i % 16] = a[(row + i / 16) * k + first + i % 16];
      bs[i / 16][i % 16] = b[(column + i / 16) * k + first + i % 16];
    }
    __syncthreads();
    const half4 x = *reinterpret_cast<const half4*>(&as[16 * (wave / 2) + at][4 * group]);
    const half4 y = *reinterpret_cast<const half4*>(&bs[16 * (wave % 2) + at][4 * group]);
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sum, 0, 0, 0);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) c[(row + 16 * (wave / 2) + 4 * group + i) * n + column + 16 * (wave % 2) + at] = sum[i];
}

class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) { check(hipMalloc(&data_, bytes)); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { (void)hipFree(data_); }
  void write(const void* from) { check(hipMemcpy(data_, from, bytes_, hipMemcpyHostToDevice)); }
  void read(void* to) const { check(hipMemcpy(to, data_, bytes_, hipMemcpyDeviceToHost)); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  static void check(hipError_t error) {
    if (error != hipSuccess) throw std::runtime_error(hipGetErrorString(error));
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

int main() try {
  const int m = 64, n = 96, k = 80;
  std::vector<_Float16> a(m * k), b(n * k);
  std::vector<float> c(m * n);
  for (int i = 0; i < m * k; i++) a[i] = _Float16(std::sin(0.37f * i));
  for (int i = 0; i < n * k; i++) b[i] = _Float16(std::cos(0.11f * i));
  Buffer da(a.size() * sizeof(_Float16)), db(b.size() * sizeof(_Float16)), dc(c.size() * sizeof(float));
  da.write(a.data());
  db.write(b.data());
  gemm_nt<<<dim3(n / 32, m / 32), 256>>>(da.as<_Float16>(), db.as<_Float16>(), dc.as<float>(), n, k);
  Buffer::check(hipGetLastError());
  dc.read(c.data());
  double largest = 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += double(a[i * k + l]) * double(b[j * k + l]);
      largest = std::fmax(largest, std::fabs(sum - c[i * n + j]));
    }
  // Products of halves are exact in single precision; 80 additions of values up to 80.
  const bool right = largest < 80 * 80 * 6e-8;
  std::printf("mfma f16: %dx%dx%d %s\n", m, n, k, right ? "within tolerance" : "OUT OF TOLERANCE");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
