// Kernels, streams, events, graphs, and calls from the device to the host.
#define HIP_ENABLE_WARP_SYNC_BUILTINS  // ballots of groups
#include <hip/hip_runtime.h>  // before the headers of HIP 5, which do not include it
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_bf16.h>
#include <hip/hip_ext.h>
#if HIP_VERSION_MAJOR >= 6
#include <hip/hip_fp8.h>
#endif
#include <hip/hiprtc.h>
#include <unistd.h>
#include <atomic>
#include <thread>
#include "check.h"
namespace cg = cooperative_groups;

__device__ int sum_of_group(cg::thread_group group, int* scratch, int value) {
  for (unsigned half = group.size() / 2; half; half /= 2) {
    scratch[group.thread_rank()] = value;
    group.sync();
    if (group.thread_rank() < half) value += scratch[group.thread_rank() + half];
    group.sync();
  }
  return value;
}
#if HIP_VERSION_MAJOR >= 6
/// Sums of a workgroup, of tiles and of tiles whose size is known at run time, then what lanes of partial groups see.
__global__ void groups_of_128(int* out) {
  __shared__ int scratch[128];
  const int lane = threadIdx.x;
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  cg::thread_group four = cg::tiled_partition(block, 4);
  int sum = sum_of_group(block, scratch, 1);
  if (block.thread_rank() == 0) out[0] = sum;
  block.sync();
  sum = sum_of_group(tile, scratch + tile.meta_group_rank() * 32, 1);
  if (lane == 32) out[1] = sum;
  block.sync();
  sum = sum_of_group(four, scratch + (lane & ~3), lane);
  if (lane == 8) out[2] = sum;
  if (lane < 64 && lane % 3 == 0) {
    cg::coalesced_group thirds = cg::coalesced_threads();
    const int after = thirds.shfl_down(lane, 2), before = thirds.shfl_up(lane, 1);
    const unsigned long long late = thirds.ballot(lane >= 57), same = thirds.match_any(lane / 32);
    cg::coalesced_group odd = cg::binary_partition(thirds, lane & 1), fours = cg::tiled_partition(thirds, 4);
    if (lane == 6) {
      const int seen[] = {int(thirds.size()), after, before, int(late >> 19), int(same), int(odd.size()), int(odd.thread_rank()),
                          int(fours.size()), int(fours.meta_group_size()), int(fours.thread_rank())};
      for (int i = 0; i < 10; i++) out[3 + i] = seen[i];
    }
  }
  int is_equal;
  const unsigned long long lanes = tile.match_all(lane / 32, is_equal);
  if (lane == 0) out[13] = is_equal && lanes == 0xffffffff;
  if (lane == 0) out[14] = cg::group_size(cg::this_grid()) + cg::this_thread_block().thread_index().x;
}
template <class Float8> __global__ void convert_floats(const float* x, Float8* codes, float* back) {
  codes[threadIdx.x] = Float8(x[threadIdx.x]);
  back[threadIdx.x] = float(codes[threadIdx.x]);
}
#endif
__global__ void round_floats(const float* x, __hip_bfloat16* rounded) { rounded[threadIdx.x] = __float2bfloat16(x[threadIdx.x]); }
__global__ void scale(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
__global__ void count(unsigned* counter, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(counter, 1u);
}
__global__ void sum_in_lds(const int* in, int* out) {
  __shared__ int part[256];
  part[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int k = 128; k; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  if (!threadIdx.x) out[blockIdx.x] = part[0];
}
__global__ void reverse_in_dynamic_lds(int* x) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
__global__ void with_scratch(int* out, int n) {
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = i * n + threadIdx.x;
  int s = 0;
  for (int i = 0; i < n; i++) s += a[(i * 7 + threadIdx.x) & 63];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void wave_sum(int* out) {
  int x = threadIdx.x;
  for (int k = 32; k; k /= 2) x += __shfl_xor(x, k);
  out[threadIdx.x] = x;
}
__global__ void where(int3* out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  out[(z * height + y) * width + x] = make_int3(x, y, z);
}
__global__ void neighbours(int* a, int* out, int n) {
  auto grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = i;
  grid.sync();
  out[i] = a[(i + blockDim.x) % n];
}
__global__ void say(int k) {
  if (threadIdx.x < 3) printf("device says %d.%d %s %.2f\n", k, int(threadIdx.x), "hello", 0.25);
}
__global__ void device_malloc(int** pointers) {
  int* one = static_cast<int*>(malloc(64));
  one[0] = threadIdx.x;
  pointers[threadIdx.x] = one;
}
__global__ void device_free(int** pointers, int* out) {
  out[threadIdx.x] = pointers[threadIdx.x][0];
  free(pointers[threadIdx.x]);
}
__global__ void wait_for(volatile int* flag) {
  while (flag[0] == 0) __builtin_amdgcn_s_sleep(10);
  flag[1] = 7;
}
__global__ void wait_for_device_flag(int* flag) {
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(10);
  flag[1] = 8;
}
__global__ void set_flag(int* flag) { __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
using Operation = float (*)(float);
__device__ float twice(float x) { return 2 * x; }
__device__ float squared(float x) { return x * x; }
__device__ Operation operations[2] = {twice, squared};
__global__ void by_pointer(float* x, int which) { x[threadIdx.x] = operations[which](x[threadIdx.x]); }
__global__ void work(float* x, int rounds) {
  float v = threadIdx.x;
  for (int i = 0; i < rounds; i++) v = v * 1.0000001f + 0.5f;
  x[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
__global__ void ticks(long long* out) {
  out[0] = wall_clock64();
  for (int i = 0; i < 100; i++) __builtin_amdgcn_s_sleep(64);
  out[1] = wall_clock64();
}

void streams() {
  const int n = 1 << 14;
  hipStream_t stream[4];
  float *device[4], *host[4];
  for (int k = 0; k < 4; k++) {
    HIP(hipStreamCreate(&stream[k]));
    device[k] = device_array<float>(n);
    HIP(hipHostMalloc(&host[k], n * 4));
    for (int i = 0; i < n; i++) host[k][i] = i + k;
  }
  for (int k = 0; k < 4; k++) {
    HIP(hipMemcpyAsync(device[k], host[k], n * 4, hipMemcpyHostToDevice, stream[k]));
    scale<<<n / 256, 256, 0, stream[k]>>>(device[k], k + 2, n);
    HIP(hipMemcpyAsync(host[k], device[k], n * 4, hipMemcpyDeviceToHost, stream[k]));
  }
  for (int k = 0; k < 4; k++) HIP(hipStreamSynchronize(stream[k]));
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < n; i++) EQUAL(host[k][i], float(i + k) * (k + 2));
}
void event_order() {
  // Each stream waits for an event of the one before, so that the value is multiplied once by each.
  hipStream_t stream[4];
  hipEvent_t done[4];
  float* x = to_device(std::vector<float>(64, 1));
  for (int k = 0; k < 4; k++) {
    HIP(hipStreamCreateWithFlags(&stream[k], hipStreamNonBlocking));
    HIP(hipEventCreateWithFlags(&done[k], hipEventDisableTiming));
  }
  for (int round = 0; round < 25; round++) {
    for (int k = 0; k < 4; k++) {
      if (round || k) HIP(hipStreamWaitEvent(stream[k], done[(k + 3) % 4], 0));
      scale<<<1, 64, 0, stream[k]>>>(x, k % 2 ? 0.5f : 2.f, 64);
      HIP(hipEventRecord(done[k], stream[k]));
    }
  }
  HIP(hipEventSynchronize(done[3]));
  EQUAL(to_host(x, 64)[63], 1.f);
}
void event_time() {
  hipEvent_t start, stop, around[2];
  for (auto* event : {&start, &stop, &around[0], &around[1]}) HIP(hipEventCreate(event));
  float* x = device_array<float>(64 * 256);
  float of_kernel, of_both;
  work<<<64, 256>>>(x, 10);
  HIP(hipEventRecord(around[0]));
  hipExtLaunchKernelGGL(work, dim3(64), dim3(256), 0, 0, start, stop, 0, x, 2000);
  HIP(hipEventRecord(around[1]));
  HIP(hipEventSynchronize(around[1]));
  HIP(hipEventElapsedTime(&of_kernel, start, stop));
  HIP(hipEventElapsedTime(&of_both, around[0], around[1]));
  printf("VALUE kernel_ms %.6f\n", of_kernel);
  TRUE(of_kernel > 0);
  TRUE(of_both >= of_kernel * 0.99);
}
void device_clock() {
  auto* out = device_array<long long>(2);
  int kilohertz;
  HIP(hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, 0));
  EQUAL(kilohertz, 100000);
#if HIP_VERSION_MAJOR >= 7
  int registers;
  HIP(hipDeviceGetAttribute(&registers, hipDeviceAttributeMaxAvailableVgprsPerThread, 0));
  EQUAL(registers, 512);
#endif
  ticks<<<1, 1>>>(out);
  auto host = to_host(out, 2);
  TRUE(host[1] > host[0]);
}
void atomics() {
  unsigned* counter = to_device(std::vector<unsigned>{0});
  count<<<100, 256>>>(counter, 25000);
  EQUAL(to_host(counter, 1)[0], 25000u);
}
void lds() {
  std::vector<int> in(1024);
  for (int i = 0; i < 1024; i++) in[i] = i;
  int* out = device_array<int>(4);
  sum_in_lds<<<4, 256>>>(to_device(in), out);
  auto sums = to_host(out, 4);
  EQUAL(sums[0], 255 * 128);
  EQUAL(sums[3], 255 * 128 + 256 * 768);
}
void dynamic_lds() {
  std::vector<int> in(512);
  for (int i = 0; i < 512; i++) in[i] = i;
  int* x = to_device(in);
  reverse_in_dynamic_lds<<<1, 512, 2048>>>(x);
  EQUAL(to_host(x, 512)[1], 510);
}
void scratch() {
  int* out = device_array<int>(1024);
  with_scratch<<<4, 256>>>(out, 50);
  int expected = 0;
  for (int i = 0; i < 50; i++) expected += ((i * 7 + 5) & 63) * 50 + 5;
  EQUAL(to_host(out, 1024)[5], expected);
}
void wave_operations() {
  int* out = device_array<int>(128);
  wave_sum<<<1, 128>>>(out);
  auto sums = to_host(out, 128);
  EQUAL(sums[0], 63 * 32);
  EQUAL(sums[127], 63 * 32 + 64 * 64);
}
void geometry() {
  int3* out = device_array<int3>(6 * 10 * 4);
  where<<<dim3(3, 5, 2), dim3(2, 2, 2)>>>(out);
  auto places = to_host(out, 6 * 10 * 4);
  for (int z = 0; z < 4; z++)
    for (int y = 0; y < 10; y++)
      for (int x = 0; x < 6; x++) TRUE(places[(z * 10 + y) * 6 + x].x == x && places[(z * 10 + y) * 6 + x].y == y && places[(z * 10 + y) * 6 + x].z == z);
}
void indirect_calls() {
  float* x = to_device(std::vector<float>(64, 3));
  by_pointer<<<1, 64>>>(x, 0);
  by_pointer<<<1, 64>>>(x, 1);
  EQUAL(to_host(x, 64)[9], 36.f);
}
void host_callback() {
  static std::atomic<int> value{0};
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  HIP(hipLaunchHostFunc(stream, [](void* p) { static_cast<std::atomic<int>*>(p)->store(9); }, &value));
  HIP(hipStreamSynchronize(stream));
  EQUAL(value.load(), 9);
}
void graph() {
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  float *device = device_array<float>(1024), *host;
  HIP(hipHostMalloc(&host, 4096));
  for (int i = 0; i < 1024; i++) host[i] = 1;
  hipGraph_t captured;
  hipGraphExec_t executable;
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  HIP(hipMemcpyAsync(device, host, 4096, hipMemcpyHostToDevice, stream));
  for (int i = 0; i < 5; i++) scale<<<4, 256, 0, stream>>>(device, 2, 1024);
  HIP(hipMemcpyAsync(host, device, 4096, hipMemcpyDeviceToHost, stream));
  HIP(hipStreamEndCapture(stream, &captured));
  HIP(hipGraphInstantiate(&executable, captured, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(executable, stream));
  HIP(hipGraphLaunch(executable, stream));
  HIP(hipStreamSynchronize(stream));
  EQUAL(host[1000], 1024.f);
}
void run_time_compiler() {
  const char* source = "extern \"C\" __global__ void add(int* a, int b) { a[threadIdx.x] += b; }";
  hipDeviceProp_t properties;
  HIP(hipGetDeviceProperties(&properties, 0));
  std::string option = std::string("--offload-arch=") + properties.gcnArchName;
  const char* options[] = {option.c_str()};
  hiprtcProgram program;
  EQUAL(int(hiprtcCreateProgram(&program, source, "add.hip", 0, nullptr, nullptr)), 0);
  EQUAL(int(hiprtcCompileProgram(program, 1, options)), 0);
  size_t size;
  EQUAL(int(hiprtcGetCodeSize(program, &size)), 0);
  std::vector<char> code(size);
  EQUAL(int(hiprtcGetCode(program, code.data())), 0);
  hipModule_t module;
  hipFunction_t function;
  HIP(hipModuleLoadData(&module, code.data()));
  code.assign(size, 0);  // the runtime keeps a copy
  HIP(hipModuleGetFunction(&function, module, "add"));
  int* device = to_device(std::vector<int>(64, 1));
  int b = 41;
  void* arguments[] = {&device, &b};
  HIP(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  EQUAL(to_host(device, 64)[63], 42);
  HIP(hipModuleUnload(module));
}
void released_by_host() {
  volatile int* flag;
  HIP(hipHostMalloc((void**)&flag, 64, hipHostMallocCoherent));
  flag[0] = flag[1] = 0;
  wait_for<<<1, 1>>>(const_cast<int*>(flag));
  std::thread releaser([&] {
    usleep(100000);
    flag[0] = 1;
  });
  hipError_t status = hipDeviceSynchronize();
  releaser.join();
  HIP(status);
  EQUAL(int(flag[1]), 7);
}
void released_by_stream() {
  hipStream_t waiting, releasing;
  HIP(hipStreamCreateWithFlags(&waiting, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&releasing, hipStreamNonBlocking));
  int* flag = to_device(std::vector<int>{0, 0});
  wait_for_device_flag<<<1, 1, 0, waiting>>>(flag);
  usleep(50000);
  set_flag<<<1, 1, 0, releasing>>>(flag);
  HIP(hipStreamSynchronize(waiting));
  EQUAL(to_host(flag, 2)[1], 8);
}
void cooperative() {
  int n = 16 * 64;
  int *a = device_array<int>(n), *out = device_array<int>(n);
  void* arguments[] = {&a, &out, &n};
  HIP(hipLaunchCooperativeKernel(reinterpret_cast<void*>(neighbours), dim3(16), dim3(64), arguments, 0, nullptr));
  auto host = to_host(out, n);
  for (int i = 0; i < n; i++) EQUAL(host[i], (i + 64) % n);
}
#if HIP_VERSION_MAJOR >= 6
void groups() {
  int* out = device_array<int>(15);
  groups_of_128<<<1, 128>>>(out);
  const int expected[] = {128, 32, 38, 22, 12, 3, 7, 0x7ff, 11, 1, 4, 6, 2, 1, 128};
  auto host = to_host(out, 15);
  for (int i = 0; i < 15; i++) EQUAL(host[i], expected[i]);
}
template <class Float8> void equal_conversions() {
  std::vector<float> x(256);
  for (int i = 0; i < 256; i++) x[i] = std::ldexp(1.0f + i * 0.0371f, i % 24 - 14) * (i % 2 ? 1 : -1);
  Float8* codes = device_array<Float8>(256);
  float* back = device_array<float>(256);
  convert_floats<<<1, 256>>>(to_device(x), codes, back);
  auto of_device = to_host(codes, 256);
  auto floats = to_host(back, 256);
  for (int i = 0; i < 256; i++) {
    Float8 code(x[i]);
    EQUAL(int(code.__x), int(of_device[i].__x));
    EQUAL(float(code), floats[i]);
  }
}
#endif
void bfloat16_on_host() {
  std::vector<float> x(256);
  for (int i = 0; i < 256; i++) x[i] = __builtin_bit_cast(float, 0x3f800000 + i * 0x1357 + i % 2 * 0x80000000);
  x[0] = INFINITY;
  x[1] = 1.00390625f;  // halfway between two values: to the even one
  x[2] = 1.01171875f;
  __hip_bfloat16* rounded = device_array<__hip_bfloat16>(256);
  round_floats<<<1, 256>>>(to_device(x), rounded);
  auto of_device = to_host(rounded, 256);
  for (int i = 0; i < 256; i++) EQUAL(__bfloat162float(__float2bfloat16(x[i])), __bfloat162float(of_device[i]));
}
#if HIP_VERSION_MAJOR >= 6
void float8_on_host() {
  equal_conversions<__hip_fp8_e4m3_fnuz>();
  equal_conversions<__hip_fp8_e5m2_fnuz>();
  __hip_fp8_e4m3_fnuz one = __float2half(1.0f), two = __float2bfloat16(2.0f), three = 3, four = 4.0;
  EQUAL(float(one) + float(two) + float(three) + float(four), 10.0f);
  __hip_fp8x4_e5m2_fnuz packed(__hip_bfloat162(__float2bfloat16(-1.5f), __float2bfloat16(2.0f)),
                               __hip_bfloat162(__float2bfloat16(0.25f), __float2bfloat16(8.0f)));
  float4 all = packed;
  EQUAL(all.x + all.y + all.z + all.w, 8.75f);
}
#endif
void device_printf() {
  say<<<2, 64>>>(5);
  HIP(hipDeviceSynchronize());
}
void device_heap() {
  int** pointers = device_array<int*>(64);
  int* out = device_array<int>(64);
  device_malloc<<<1, 64>>>(pointers);
  device_free<<<1, 64>>>(pointers, out);
  EQUAL(to_host(out, 64)[9], 9);
}
void wait_value() {
  hipStream_t a, b;
  HIP(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  uint64_t* word;
  HIP(hipExtMallocWithFlags(reinterpret_cast<void**>(&word), 8, hipMallocSignalMemory));
  *word = 0;
  int* out = to_device(std::vector<int>{0});
  HIP(hipStreamWaitValue64(a, word, 5, hipStreamWaitValueGte));
  HIP(hipMemsetAsync(out, 1, 4, a));
  usleep(20000);
  EQUAL(int(hipStreamQuery(a)), int(hipErrorNotReady));
  HIP(hipStreamWriteValue64(b, word, 6, 0));
  HIP(hipStreamSynchronize(a));
  EQUAL(to_host(out, 1)[0], 0x01010101);
  (void)hipGetLastError();
}
void many_launches() {
  unsigned* counter = to_device(std::vector<unsigned>{0});
  for (int i = 0; i < 3000; i++) count<<<1, 64>>>(counter, 64);
  EQUAL(to_host(counter, 1)[0], 3000u * 64);
}
void threads_of_the_host() {
  unsigned* counter = to_device(std::vector<unsigned>{0});
  std::vector<std::thread> threads;
  std::atomic<int> errors{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      hipStream_t stream;
      errors += hipStreamCreate(&stream) != hipSuccess;
      for (int i = 0; i < 50; i++) {
        count<<<2, 64, 0, stream>>>(counter, 128);
        errors += hipStreamSynchronize(stream) != hipSuccess;
      }
      errors += hipStreamDestroy(stream) != hipSuccess;
    });
  for (auto& thread : threads) thread.join();
  EQUAL(errors.load(), 0);
  EQUAL(to_host(counter, 1)[0], 4u * 50 * 128);
}
void launch_errors() {
  float* x = device_array<float>(64);
  scale<<<1, 2048>>>(x, 2, 64);
  TRUE(hipGetLastError() != hipSuccess);
  scale<<<1, 64, 1 << 20>>>(x, 2, 64);
  TRUE(hipGetLastError() != hipSuccess);
  scale<<<1, 64>>>(x, 2, 64);
  HIP(hipDeviceSynchronize());
}

int main(int argc, char** argv) {
  return run_checks(
      argc, argv,
      {{"streams", streams}, {"event_order", event_order}, {"event_time", event_time}, {"device_clock", device_clock}, {"atomics", atomics},
       {"lds", lds}, {"dynamic_lds", dynamic_lds}, {"scratch", scratch}, {"wave_operations", wave_operations}, {"geometry", geometry},
       {"indirect_calls", indirect_calls}, {"host_callback", host_callback}, {"graph", graph},
       {"run_time_compiler", run_time_compiler}, {"released_by_host", released_by_host}, {"released_by_stream", released_by_stream},
       {"cooperative", cooperative}, {"bfloat16_on_host", bfloat16_on_host},
#if HIP_VERSION_MAJOR >= 6
       {"groups", groups}, {"float8_on_host", float8_on_host},
#endif
       {"device_printf", device_printf}, {"device_heap", device_heap}, {"wait_value", wait_value},
       {"many_launches", many_launches}, {"threads_of_the_host", threads_of_the_host}, {"launch_errors", launch_errors}});
}
