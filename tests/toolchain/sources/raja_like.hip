#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <mpi.h>
#include <tbb/parallel_for.h>
#include "argparse/argparse.hpp"
#include <functional>
#include <optional>
#include <variant>
namespace cg = cooperative_groups;
namespace lib {
template <typename F> __global__ void forall_kernel(size_t n, F f) { size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) f(i); }
template <typename F> void forall(size_t n, F&& f) { forall_kernel<<<dim3((n + 255) / 256), dim3(256), 0, nullptr>>>(n, f); hipError_t e = hipGetLastError(); if (e != hipSuccess) MPI_Abort(MPI_COMM_WORLD, e); }
struct Config { int n; double alpha; std::optional<std::string> out; static Config parse(argparse::ArgumentParser& p) { Config c; c.n = p.get<int>("--n"); c.alpha = p.get<double>("--alpha"); return c; } };
enum class Mode : int { fast, slow };
}
__global__ void grid_reduce(const double* x, double* partial, size_t n) {
  cg::grid_group grid = cg::this_grid(); cg::thread_block block = cg::this_thread_block(); auto warp = cg::tiled_partition<64>(block);
  double s = 0; for (size_t i = grid.thread_rank(); i < n; i += grid.size()) s += x[i];
  for (int o = warp.size() / 2; o > 0; o /= 2) s += warp.shfl_down(s, o);
  if (warp.thread_rank() == 0) atomicAdd(&partial[0], s);
  grid.sync(); if (grid.thread_rank() == 0) partial[1] = sqrt(partial[0]);
}
int main(int argc, char** argv) {
  int provided; MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  argparse::ArgumentParser program("raja"); program.add_argument("--n").default_value(1000).scan<'i', int>();
  try { program.parse_args(argc, argv); } catch (const std::exception& err) { std::cerr << program; return 1; }
  auto cfg = lib::Config::parse(program);
  double *x, *y; hipMalloc(&x, cfg.n * 8); hipMalloc(&y, cfg.n * 8);
  double alpha = cfg.alpha;
  lib::forall(cfg.n, [=] __device__(size_t i) { y[i] = alpha * x[i] + y[i]; });
  lib::forall(100, [=] __host__ __device__(size_t i) { x[i] = i; });
  size_t n = 100; void* args[] = {&x, &y, &n};
  hipLaunchCooperativeKernel((void*)grid_reduce, dim3(8), dim3(256), args, 0, nullptr);
  tbb::parallel_for(0, 10, [&](int i) { alpha += i; });
  std::variant<int, double> v = 1; std::visit([](auto&& a) { std::cout << a; }, v);
  MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize();
}
