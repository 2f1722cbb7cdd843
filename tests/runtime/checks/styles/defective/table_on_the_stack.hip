// A table in private memory is indexed with a value of the input that is far too large.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>

__global__ void classify(const unsigned short *in, int *out, int n) {
  int table[256];
  for (int k = 0; k < 256; k++) table[k] = k * n;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  table[in[i]] += 1;  // DEFECT out_of_bounds|scratch_out_of_bounds
  out[i] = table[in[i] % 256] + table[15];
}

int main() {
  constexpr int n = 256;
  std::vector<unsigned short> host(n);
  for (int i = 0; i < n; i++) host[i] = (unsigned short)i;
  host[77] = 60000;
  unsigned short *in;
  int *out;
  if (hipMalloc(&in, n * sizeof(short)) != hipSuccess || hipMalloc(&out, n * sizeof(int)) != hipSuccess) return 1;
  if (hipMemcpy(in, host.data(), n * sizeof(short), hipMemcpyHostToDevice) != hipSuccess) return 1;
  classify<<<2, 128>>>(in, out, n);
  (void)hipDeviceSynchronize();
  (void)hipFree(in);
  (void)hipFree(out);
  std::puts("ended");
}
