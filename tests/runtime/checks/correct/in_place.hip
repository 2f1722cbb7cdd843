// Work-items exchange elements in place: each pair belongs to one of them.
#include "../program.h"
__global__ void reverse(int *data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 2) return;
  int other = data[n - 1 - i];
  data[n - 1 - i] = data[i];
  data[i] = other;
}
int main() {
  const int n = 1001;
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = i;
  int *data = device(values);
  for (int k = 0; k < 3; k++) reverse<<<(n + 127) / 128, 128>>>(data, n);
  std::vector<int> result = host(data, n);
  HIP(hipFree(data));
  return ended(result[0] == n - 1 && result[n - 1] == 0);
}
