// Dynamic LDS is carved into arrays of several types and reused with another type after a barrier.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

template <class T>
struct SharedMemory {
  __device__ operator T *() {
    extern __shared__ double raw[];
    return reinterpret_cast<T *>(raw);
  }
};

__global__ void process(const float *in, float *out, unsigned char *flags) {
  const unsigned n = blockDim.x, t = threadIdx.x, i = blockIdx.x * n + t;
  char *base = SharedMemory<char>();
  auto *wide = reinterpret_cast<double *>(base);
  auto *index = reinterpret_cast<unsigned short *>(base + n * sizeof(double));
  auto *flag = reinterpret_cast<unsigned char *>(index + n);
  wide[t] = in[i];
  index[t] = (unsigned short)(n - 1 - t);
  flag[t] = t & 1;
  __syncthreads();
  float value = float(wide[index[t]]);
  unsigned char other = flag[(t + 1) % n];
  __syncthreads();
  float *narrow = SharedMemory<float>();
  narrow[t] = value;
  __syncthreads();
  out[i] = narrow[t] + narrow[t ^ 1];
  flags[i] = other;
}

int main() {
  constexpr unsigned blocks = 3, n = 192;
  std::vector<float> host(blocks * n);
  std::vector<unsigned char> bytes(blocks * n);
  for (unsigned i = 0; i < blocks * n; i++) host[i] = float(i % n);
  float *in, *out;
  unsigned char *flags;
  if (hipMalloc(&in, host.size() * 4) || hipMalloc(&out, host.size() * 4) || hipMalloc(&flags, host.size())) return 1;
  if (hipMemcpy(in, host.data(), host.size() * 4, hipMemcpyHostToDevice)) return 1;
  const size_t lds = n * (sizeof(double) + sizeof(short) + 1);
  if (hipFuncSetAttribute((const void *)process, hipFuncAttributeMaxDynamicSharedMemorySize, int(lds))) return 1;
  process<<<blocks, n, lds>>>(in, out, flags);
  if (hipMemcpy(host.data(), out, host.size() * 4, hipMemcpyDeviceToHost) || hipMemcpy(bytes.data(), flags, bytes.size(), hipMemcpyDeviceToHost)) return 1;
  if (hipFree(in) || hipFree(out) || hipFree(flags)) return 1;
  for (unsigned i = 0; i < blocks * n; i++) {
    unsigned t = i % n;
    if (host[i] != float((n - 1 - t) + (n - 1 - (t ^ 1))) || bytes[i] != ((t + 1) % n & 1)) return 2;
  }
  std::puts("right");
}
