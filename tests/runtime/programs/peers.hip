// Two or more devices in one process.
#include "check.h"

__global__ void add(const int* from, int* to, int value) { to[threadIdx.x] = from[threadIdx.x] + value; }
__global__ void wait_for(int* flag) {
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0) __builtin_amdgcn_s_sleep(10);
}
__global__ void set_flag(int* flag) { __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM); }

static int* on_device(int device, int value) {
  HIP(hipSetDevice(device));
  return to_device(std::vector<int>(64, value));
}

void listed() {
  int count, other;
  HIP(hipGetDeviceCount(&count));
  TRUE(count >= 2);
  hipDeviceProp_t first, second;
  HIP(hipGetDeviceProperties(&first, 0));
  HIP(hipGetDeviceProperties(&second, 1));
  EQUAL(std::string(first.gcnArchName) == second.gcnArchName, true);
  TRUE(first.pciBusID != second.pciBusID || first.pciDeviceID != second.pciDeviceID || first.pciDomainID != second.pciDomainID);
  HIP(hipDeviceCanAccessPeer(&other, 0, 1));
  EQUAL(other, 1);
}
void each_computes() {
  for (int device = 0; device < 2; device++) {
    int* x = on_device(device, 10 * device);
    add<<<1, 64>>>(x, x, 1);
    EQUAL(to_host(x, 64)[63], 10 * device + 1);
  }
}
void peer_copy() {
  int *a = on_device(0, 5), *b = on_device(1, 0);
  HIP(hipMemcpyPeer(b, 1, a, 0, 256));
  EQUAL(to_host(b, 64)[63], 5);
}
void peer_access() {
  int *a = on_device(0, 7), *b = on_device(1, 0);
  HIP(hipSetDevice(1));
  hipError_t enabled = hipDeviceEnablePeerAccess(0, 0);
  TRUE(enabled == hipSuccess || enabled == hipErrorPeerAccessAlreadyEnabled);
  (void)hipGetLastError();
  add<<<1, 64>>>(a, b, 1);
  HIP(hipDeviceSynchronize());
  EQUAL(to_host(b, 64)[63], 8);
}
void events_across() {
  hipStream_t first, second;
  hipEvent_t done;
  int *a = on_device(0, 1), *b = on_device(1, 0), *host;
  HIP(hipHostMalloc(&host, 256));
  HIP(hipSetDevice(0));
  HIP(hipStreamCreate(&first));
  HIP(hipEventCreate(&done));
  HIP(hipSetDevice(1));
  HIP(hipStreamCreate(&second));
  HIP(hipSetDevice(0));
  for (int i = 0; i < 20; i++) add<<<1, 64, 0, first>>>(a, a, 1);
  HIP(hipMemcpyAsync(host, a, 256, hipMemcpyDeviceToHost, first));
  HIP(hipEventRecord(done, first));
  HIP(hipSetDevice(1));
  HIP(hipStreamWaitEvent(second, done, 0));
  HIP(hipMemcpyAsync(b, host, 256, hipMemcpyHostToDevice, second));
  HIP(hipStreamSynchronize(second));
  EQUAL(to_host(b, 64)[0], 21);
}
void one_releases_the_other() {
  int* flag;
  HIP(hipHostMalloc(&flag, 64, hipHostMallocCoherent));
  *flag = 0;
  HIP(hipSetDevice(0));
  wait_for<<<1, 1>>>(flag);
  HIP(hipSetDevice(1));
  set_flag<<<1, 1>>>(flag);
  HIP(hipDeviceSynchronize());
  HIP(hipSetDevice(0));
  HIP(hipDeviceSynchronize());
  EQUAL(*flag, 1);
}

int main(int argc, char** argv) {
  return run_checks(argc, argv, {{"listed", listed}, {"each_computes", each_computes}, {"peer_copy", peer_copy},
                                 {"peer_access", peer_access}, {"events_across", events_across},
                                 {"one_releases_the_other", one_releases_the_other}});
}
