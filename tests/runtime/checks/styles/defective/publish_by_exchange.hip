// A workgroup publishes its total with atomicExch, without a fence before it; its successor spins with atomicAdd(p, 0).
#include <hip/hip_runtime.h>
#include <iostream>

struct Slot {
  unsigned flag;
  float total;
  float pad[14];
};

__global__ void chain(Slot *slots, const float *in, float *out) {
  const unsigned id = blockIdx.x;
  float before = 0;
  if (threadIdx.x == 0) {
    if (id > 0) {
      while (atomicAdd(&slots[id - 1].flag, 0u) == 0) __builtin_amdgcn_s_sleep(2);
      before = slots[id - 1].total;  // DEFECT memory_race
    }
    slots[id].total = before + in[id];  // DEFECT memory_race
    atomicExch(&slots[id].flag, 1u);
    out[id] = before;
  }
}

int main() {
  const int n = 12;
  Slot *slots;
  float *in, *out, host[n];
  if (hipMalloc(&slots, n * sizeof(Slot)) != hipSuccess) return 1;
  if (hipMalloc(&in, sizeof host) != hipSuccess || hipMalloc(&out, sizeof host) != hipSuccess) return 1;
  for (int i = 0; i < n; i++) host[i] = 1;
  if (hipMemset(slots, 0, n * sizeof(Slot)) != hipSuccess) return 1;
  if (hipMemcpy(in, host, sizeof host, hipMemcpyDefault) != hipSuccess) return 1;
  chain<<<n, 64>>>(slots, in, out);
  if (hipMemcpy(host, out, sizeof host, hipMemcpyDefault) != hipSuccess) return 1;
  std::cout << host[n - 1] << "\n";
  (void)hipFree(slots), (void)hipFree(in), (void)hipFree(out);
}
