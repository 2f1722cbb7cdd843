// The host clears a flag, runs a step, reads the flag back: all work-items may store the same value to it.
#include "../../program.h"
__global__ void relax(const int *from, const int *to, int *component, int edges, int *changed) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= edges) return;
  int a = component[from[e]], b = component[to[e]];
  if (a < b && atomicMin(&component[to[e]], a) > a) atomicExch(changed, 1);
}
int main() {
  const int n = 64;
  std::vector<int> from(n - 1), to(n - 1), start(n);
  for (int i = 0; i < n; i++) start[i] = i;
  for (int i = 0; i + 1 < n; i++) from[i] = i, to[i] = i + 1;
  int *a = device(from), *b = device(to), *component = device(start), *changed;
  HIP(hipMalloc(&changed, sizeof(int)));
  int again = 1;
  for (int round = 0; again && round < n; round++) {
    HIP(hipMemset(changed, 0, sizeof(int)));
    relax<<<1, 1>>>(a, b, component, 1, changed);
    for (int e = 1; e + 1 < n; e++) relax<<<1, 1>>>(a + e, b + e, component, 1, changed);
    HIP(hipMemcpy(&again, changed, sizeof(int), hipMemcpyDeviceToHost));
  }
  bool right = true;
  for (int value : host(component, n)) right = right && value == 0;
  for (int *memory : {a, b, component, changed}) HIP(hipFree(memory));
  return ended(right);
}
