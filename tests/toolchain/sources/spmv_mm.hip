#include <hip/hip_runtime.h>
#include <hipsparse/hipsparse.h>
#include <rocsparse/rocsparse.h>
#include <Eigen/Sparse>
#include <fstream>
#include <sstream>
#include <map>
#include <numeric>
#include <spdlog/spdlog.h>
#define HIPSPARSE_CHECK(x) { auto s = (x); if (s != HIPSPARSE_STATUS_SUCCESS) { spdlog::error("hipsparse {} at {}", (int)s, __LINE__); std::exit(EXIT_FAILURE); } }
using SpMat = Eigen::SparseMatrix<double, Eigen::RowMajor>;
template <typename I, typename V, unsigned WAVE> __global__ void csr_vector(I rows, const I* ptr, const I* col, const V* val, const V* x, V* y) {
  const unsigned lane = threadIdx.x % WAVE; const I row = (blockIdx.x * blockDim.x + threadIdx.x) / WAVE;
  if (row >= rows) return;
  V sum{};
  for (I k = ptr[row] + lane; k < ptr[row + 1]; k += WAVE) sum += val[k] * x[col[k]];
  for (unsigned o = WAVE / 2; o > 0; o >>= 1) sum += __shfl_down(sum, o, WAVE);
  if (lane == 0) y[row] = sum;
}
struct CsrHost { std::vector<int> ptr, col; std::vector<double> val; int rows = 0; };
CsrHost read(const std::string& path) { std::ifstream f(path); CsrHost m; std::string line; while (std::getline(f, line)) { std::istringstream s(line); int a; s >> a; m.ptr.push_back(a); } return m; }
CsrHost from_eigen(const SpMat& a) { CsrHost m; m.rows = a.rows(); for (int k = 0; k < a.outerSize(); ++k) for (SpMat::InnerIterator it(a, k); it; ++it) m.val.push_back(it.value()); return m; }
template <class V> double run(const CsrHost& m, int reps) {
  int *p, *c; V *v, *x, *y; hipMalloc(&p, 4); hipMalloc(&c, 4); hipMalloc(&v, 8); hipMalloc(&x, 8); hipMalloc(&y, 8);
  hipEvent_t e0, e1; hipEventCreate(&e0); hipEventCreate(&e1);
  hipsparseHandle_t h; HIPSPARSE_CHECK(hipsparseCreate(&h));
  hipEventRecord(e0);
  for (int i = 0; i < reps; ++i) {
    switch (i % 3) {
      case 0: csr_vector<int, V, 64><<<dim3(m.rows / 4 + 1), dim3(256)>>>(m.rows, p, c, v, x, y); break;
      case 1: csr_vector<int, V, 16><<<dim3(m.rows / 16 + 1), 256>>>(m.rows, p, c, v, x, y); break;
      default: HIPSPARSE_CHECK(hipsparseDcsrmv(h, HIPSPARSE_OPERATION_NON_TRANSPOSE, m.rows)); break;
    }
  }
  hipEventRecord(e1); hipEventSynchronize(e1); float ms; hipEventElapsedTime(&ms, e0, e1);
  HIPSPARSE_CHECK(hipsparseDestroy(h));
  return ms;
}
int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::info);
  SpMat a(100, 100);
  CsrHost m = argc > 1 ? read(argv[1]) : from_eigen(a);
  std::map<std::string, double> r{{"double", run<double>(m, 10)}, {"float", run<float>(m, 10)}};
  for (const auto& [name, ms] : r) spdlog::info("{}: {} ms", name, ms);
}
