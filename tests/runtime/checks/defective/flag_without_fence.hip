// A producer sets a flag with a relaxed atomic and no fence: the consumer may see the flag before the data.
#include "../program.h"
__global__ void hand_over(int *data, int *flag, int *out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 5;  // DEFECT memory_race
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  } else {
    if (threadIdx.x == 0)
      while (!__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];  // DEFECT memory_race
  }
}
int main() {
  int *data = device(std::vector<int>(256)), *flag = device(std::vector<int>(1)), *out = device(std::vector<int>(256));
  hand_over<<<2, 256>>>(data, flag, out);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(data));
  HIP(hipFree(flag));
  HIP(hipFree(out));
}
