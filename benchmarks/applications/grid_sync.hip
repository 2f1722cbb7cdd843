// Cooperative groups: Jacobi sweeps in one cooperative launch with a grid barrier, tiles and a group of active lanes.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace cg = cooperative_groups;

#define CHECK(e)                                                      \
  do {                                                                \
    if (hipError_t error = (e); error != hipSuccess) {                \
      fprintf(stderr, "%s: %s\n", #e, hipGetErrorString(error));      \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

__global__ void smooth(int* a, int* b, int n, int sweeps, int* total) {
  cg::grid_group grid = cg::this_grid();
  for (int s = 0; s < sweeps; s++) {
    for (unsigned i = grid.thread_rank(); i < unsigned(n); i += grid.size()) {
      const int left = i ? a[i - 1] : 0, right = i + 1 < unsigned(n) ? a[i + 1] : 0;
      b[i] = (left + 2 * a[i] + right) / 4;
    }
    grid.sync();
    int* t = a;
    a = b;
    b = t;
  }
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  int sum = 0;
  for (unsigned i = grid.thread_rank(); i < unsigned(n); i += grid.size()) sum += a[i];
  for (unsigned offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
  if (tile.thread_rank() == 0) atomicAdd(total, sum);
}

__global__ void count_odd(const int* values, int n, int* odd) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && values[i] % 2) {
    cg::coalesced_group active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(odd, int(active.size()));
  }
}

int main() {
  int n = 6000, sweeps = 9;
  std::vector<int> a(n), b(n), start;
  for (int i = 0; i < n; i++) a[i] = (i * 7919) % 100000;
  start = a;
  int *d_a, *d_b, *d_sums;
  CHECK(hipMalloc(&d_a, n * sizeof(int)));
  CHECK(hipMalloc(&d_b, n * sizeof(int)));
  CHECK(hipMalloc(&d_sums, 2 * sizeof(int)));
  CHECK(hipMemcpy(d_a, a.data(), n * sizeof(int), hipMemcpyHostToDevice));
  CHECK(hipMemset(d_sums, 0, 2 * sizeof(int)));
  int per_unit = 0, cooperative = 0;
  CHECK(hipDeviceGetAttribute(&cooperative, hipDeviceAttributeCooperativeLaunch, 0));
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&per_unit, smooth, 256, 0));
  if (!cooperative || per_unit < 1) {
    printf("no cooperative launch\n");
    return 1;
  }
  void* arguments[] = {&d_a, &d_b, &n, &sweeps, &d_sums};
  CHECK(hipLaunchCooperativeKernel(reinterpret_cast<void*>(smooth), dim3(12), dim3(256), arguments, 0, nullptr));
  CHECK(hipDeviceSynchronize());
  count_odd<<<(n + 127) / 128, 128>>>(d_b, n, d_sums + 1);  // nine sweeps: the result is in b
  CHECK(hipGetLastError());
  int sums[2], expected[2] = {0, 0};
  CHECK(hipMemcpy(sums, d_sums, sizeof sums, hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(b.data(), d_b, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int s = 0; s < sweeps; s++) {
    std::vector<int> next(n);
    for (int i = 0; i < n; i++) next[i] = ((i ? start[i - 1] : 0) + 2 * start[i] + (i + 1 < n ? start[i + 1] : 0)) / 4;
    start.swap(next);
  }
  for (int v : start) {
    expected[0] += v;
    expected[1] += v % 2;
  }
  const bool right = b == start && std::equal(sums, sums + 2, expected);
  printf("grid barrier: sum %d, odd %d, %s\n", sums[0], sums[1], right ? "correct" : "WRONG");
  CHECK(hipFree(d_a));
  CHECK(hipFree(d_b));
  CHECK(hipFree(d_sums));
  return right ? 0 : 1;
}
