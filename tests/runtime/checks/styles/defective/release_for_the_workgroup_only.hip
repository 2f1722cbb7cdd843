// A message passes between workgroups with release and acquire of workgroup scope.
#include <hip/hip_runtime.h>
#include <cstdio>

struct Mailbox {
  int payload[64];
  int ready;
};

__global__ void exchange(Mailbox *box, int *out) {
  if (blockIdx.x == 0) {
    box->payload[threadIdx.x] = int(threadIdx.x) * 3;  // DEFECT memory_race
    if (threadIdx.x == 0) __hip_atomic_store(&box->ready, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);  // DEFECT memory_race
  } else {
    while (__hip_atomic_load(&box->ready, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) __builtin_amdgcn_s_sleep(4);  // DEFECT memory_race
    out[threadIdx.x] = box->payload[threadIdx.x];  // DEFECT memory_race
  }
}

int main() {
  Mailbox *box;
  int *out;
  if (hipMalloc(&box, sizeof *box) != hipSuccess || hipMalloc(&out, 64 * sizeof(int)) != hipSuccess) return 1;
  if (hipMemset(box, 0, sizeof *box) != hipSuccess) return 1;
  exchange<<<2, 64>>>(box, out);
  int last = 0;
  if (hipMemcpy(&last, out + 63, sizeof last, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%d\n", last);
  return hipFree(box) != hipSuccess || hipFree(out) != hipSuccess;
}
