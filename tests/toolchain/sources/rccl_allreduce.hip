#include <hip/hip_runtime.h>
#include <rccl/rccl.h>
#include <hiprand/hiprand.h>
#include <hipfft/hipfft.h>
#include <boost/program_options.hpp>
#include <boost/format.hpp>
#include <fmt/core.h>
#include <roctracer/roctx.h>
namespace po = boost::program_options;
#define NCCLCHECK(cmd) do { ncclResult_t r = cmd; if (r != ncclSuccess) { printf("%s\n", ncclGetErrorString(r)); exit(1); } } while (0)
__global__ void __launch_bounds__(256, 4) add(float* __restrict__ dst, const float* __restrict__ src, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) dst[i] += __builtin_nontemporal_load(src + i);
}
template <typename V> struct Op { __device__ __host__ V operator()(V a, V b) const { return a + b; } };
template <typename V, template <typename> class F> __global__ void apply(V* a, const V* b) { a[threadIdx.x] = F<V>()(a[threadIdx.x], b[threadIdx.x]); }
class Ring {
 public:
  explicit Ring(int n) : comms_(n) { NCCLCHECK(ncclCommInitAll(comms_.data(), n, nullptr)); }
  ~Ring() { for (auto& c : comms_) ncclCommDestroy(c); }
  template <class T> void step(T* a, T* b) { apply<T, Op><<<1, 256>>>(a, b); NCCLCHECK(ncclAllReduce(a, b, 256, ncclFloat, ncclSum, comms_[0], stream_)); }
 private:
  std::vector<ncclComm_t> comms_;
  hipStream_t stream_;
};
int main(int argc, char** argv) {
  po::options_description desc("options");
  desc.add_options()("n", po::value<int>()->default_value(4), "count");
  po::variables_map vm; po::store(po::parse_command_line(argc, argv, desc), vm); po::notify(vm);
  const int n = vm["n"].as<int>();
  float *a, *b; hipMalloc(&a, n * 4); hipMalloc(&b, n * 4);
  hiprandGenerator_t gen; hiprandCreateGenerator(&gen, HIPRAND_RNG_PSEUDO_DEFAULT); hiprandGenerateUniform(gen, a, n);
  hipfftHandle plan; hipfftPlan1d(&plan, n, HIPFFT_C2C, 1);
  roctxRangePush("add");
  add<<<n / 256 + 1, 256>>>(a, b, n);
  roctxRangePop();
  Ring ring(1); ring.step(a, b);
  fmt::print("{}\n", n);
  std::cout << boost::format("%1%") % n;
}
