#include <hip/hip_runtime.h>
#include <mpi.h>
#include <curl/curl.h>
#define KERNEL(name, op) __global__ void name(float* a, const float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = a[i] op b[i]; }
KERNEL(kadd, +) KERNEL(kmul, *)
#ifdef USE_DOUBLE
typedef double T;
#else
typedef float T;
#endif
class Solver final {
  struct Impl { T* x; T* y; MPI_Comm comm; std::vector<MPI_Request> reqs; };
  std::unique_ptr<Impl> impl;
  virtual MPI_Comm comm() const { return impl->comm; }
  template <int B> __device__ static T twice(T v) { return v * B; }
 public:
  template <int B> static __global__ void step_kernel(T* x, int n);
  Solver(MPI_Comm c, int n) : impl(new Impl{nullptr, nullptr, c}) { MPI_Comm_dup(c, &impl->comm); hipMalloc(&impl->x, n * sizeof(T)); }
  void step(int n) { kadd<<<n / 64, 64>>>(impl->x, impl->y, n); kmul<<<dim3(n / 64), dim3(64), 0, hipStreamPerThread>>>(impl->x, impl->y, n); MPI_Waitall(impl->reqs.size(), impl->reqs.data(), MPI_STATUSES_IGNORE); }
};
int main(int c, char** v) { MPI_Init(&c, &v); Solver s(MPI_COMM_WORLD, 64); s.step(64); CURL* curl = curl_easy_init(); if (curl) { CURLcode r = curl_easy_perform(curl); (void)r; } do { s.step(1); } while (MPI_Wtime() < 1); MPI_Finalize(); }
