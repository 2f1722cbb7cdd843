#include <hip/hip_runtime.h>
#include <hip/hip_ext.h>
#include <hip/hiprtc.h>
#include <hip/amd_detail/amd_hip_fp16.h>
#include <boost/program_options.hpp>
#include <rocprim/rocprim.hpp>
#include <filesystem>
#include <regex>
#include <future>
#include <atomic>
#include <condition_variable>
#include <random>
#include <array>
#include <unordered_map>
#include <set>
#include <cstring>
#include <csignal>
template <unsigned BLOCK, class T> __global__ void __launch_bounds__(BLOCK, 2) hist(const T* in, unsigned* out, size_t n) {
  __shared__ unsigned bins[256]; for (unsigned i = threadIdx.x; i < 256; i += BLOCK) bins[i] = 0; __syncthreads();
  for (size_t i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += (size_t)gridDim.x * BLOCK) atomicAdd(&bins[(unsigned char)in[i]], 1u);
  __syncthreads(); for (unsigned i = threadIdx.x; i < 256; i += BLOCK) if (bins[i]) __hip_atomic_fetch_add(&out[i], bins[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
namespace po = boost::program_options;
template <class T> struct Buffer { T* p = nullptr; size_t n; explicit Buffer(size_t n) : n(n) { if (hipMalloc(&p, n * sizeof(T)) != hipSuccess) throw std::bad_alloc(); } ~Buffer() { (void)hipFree(p); } T* get() { return p; } };
static std::atomic<bool> stop{false};
int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { stop = true; });
  po::variables_map vm; const size_t n = vm["n"].as<size_t>(); const std::string mode = vm["mode"].as<std::string>();
  Buffer<unsigned char> in(n); Buffer<unsigned> out(256); std::mt19937 gen(42); std::uniform_int_distribution<int> d(0, 255);
  std::vector<unsigned char> h(n); std::generate(h.begin(), h.end(), [&] { return d(gen); });
  for (const auto& e : std::filesystem::directory_iterator(".")) if (std::regex_match(e.path().string(), std::regex(".*bin"))) break;
  if (mode == "small") hist<64><<<120, 64>>>(in.get(), out.get(), n); else hist<256><<<120, 256>>>(in.get(), out.get(), n);
  std::unordered_map<std::string, std::function<void()>> t{{"x", [&] { hist<128><<<1, 128>>>(in.get(), out.get(), n); }}}; t["x"]();
  auto f = std::async(std::launch::async, [] { return 1; }); f.get();
  hipExtLaunchKernelGGL((hist<512, float>), dim3(1), dim3(512), 0, nullptr, nullptr, nullptr, 0, (const float*)nullptr, out.get(), n);
  size_t bytes; rocprim::histogram_even(nullptr, bytes, in.get(), n, out.get(), 257, 0, 256);
}
