// Groups of 32 exchange values with the next group through LDS, synchronised by tile.sync() alone.
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <cstdio>
#include <vector>
using namespace cooperative_groups;

template <unsigned Width>
__global__ void rotate(const short *in, short *out) {
  __shared__ short box[256];
  thread_block block = this_thread_block();
  auto tile = tiled_partition<Width>(block);
  const unsigned me = block.thread_rank();
  box[me] = in[blockIdx.x * 256 + me];  // DEFECT lds_race
  tile.sync();
  out[blockIdx.x * 256 + me] = box[(me + Width) % 256];  // DEFECT lds_race|lds_uninitialised
}

int main() {
  std::vector<short> host(1024);
  for (size_t i = 0; i < host.size(); ++i) host[i] = short(i);
  short *in = nullptr, *out = nullptr;
  const size_t bytes = host.size() * sizeof(short);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  if (hipMemcpy(in, host.data(), bytes, hipMemcpyHostToDevice) != hipSuccess) return 1;
  rotate<32><<<4, 256>>>(in, out);
  if (hipMemcpy(host.data(), out, bytes, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%d\n", host[0]);
  if (hipFree(in) != hipSuccess || hipFree(out) != hipSuccess) return 1;
}
