// Programs with one mistake of the host each, chosen by the argument. The mistake is in the line marked with the name of the case.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

static const int N = 4096;

__global__ void fill(int *to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void add(int *to, const int *from) { to[blockIdx.x * blockDim.x + threadIdx.x] += from[blockIdx.x * blockDim.x + threadIdx.x]; }
__device__ int table[16];

static int *device(int count = N) {
  int *p = nullptr;
  (void)hipMalloc(&p, count * sizeof(int));
  (void)hipMemset(p, 0, count * sizeof(int));
  (void)hipDeviceSynchronize();
  return p;
}

static hipStream_t stream() {
  hipStream_t s;
  (void)hipStreamCreateWithFlags(&s, hipStreamNonBlocking);
  return s;
}

static void use_after_free() {
  int *p = device();
  (void)hipFree(p);
  fill<<<N / 256, 256>>>(p, 1);  // use_after_free
  (void)hipDeviceSynchronize();
}

static void copy_after_free() {
  int *p = device();
  std::vector<int> host(N);
  (void)hipFree(p);
  (void)hipMemcpy(host.data(), p, N * sizeof(int), hipMemcpyDeviceToHost);  // copy_after_free
}

static void double_free() {
  int *p = device();
  (void)hipFree(p);
  (void)hipFree(p);  // double_free
}

static void inner_free() {
  int *p = device();
  (void)hipFree(p + 16);  // inner_free
  (void)hipFree(p);
}

static void foreign_free() {
  int *p = static_cast<int *>(malloc(64));
  (void)hipFree(p);  // foreign_free
  free(p);
}

static void copy_past_end() {
  int *p = device(100);
  std::vector<int> host(101);
  (void)hipMemcpy(p, host.data(), 101 * sizeof(int), hipMemcpyHostToDevice);  // copy_past_end
  (void)hipFree(p);
}

static void fill_past_end() {
  int *p = device(100);
  (void)hipMemset(p + 50, 0, 100 * sizeof(int));  // fill_past_end
  (void)hipFree(p);
}

static void symbol_past_end() {
  int host[20] = {};
  (void)hipMemcpyToSymbol(HIP_SYMBOL(table), host, sizeof host);  // symbol_past_end
}

static void wrong_direction() {
  int *p = device();
  std::vector<int> host(N);
  (void)hipMemcpy(p, host.data(), N * sizeof(int), hipMemcpyDeviceToHost);  // wrong_direction
  (void)hipFree(p);
}

static void bad_geometry() {
  int *p = device();
  fill<<<2, 2048>>>(p, 1);  // bad_geometry
  (void)hipGetLastError();
  (void)hipFree(p);
}

static void empty_grid() {
  int *p = device();
  int count = 0;
  fill<<<(count + 255) / 256, 256>>>(p, 1);  // empty_grid
  (void)hipGetLastError();
  (void)hipFree(p);
}

static void empty_block() {
  int *p = device();
  fill<<<1, dim3(64, 0)>>>(p, 1);  // empty_block
  (void)hipGetLastError();
  (void)hipFree(p);
}

static void too_much_lds() {
  int *p = device();
  fill<<<1, 64, 1 << 20>>>(p, 1);  // too_much_lds
  (void)hipGetLastError();
  (void)hipFree(p);
}

__global__ void __launch_bounds__(128) bounded(int *to) { to[threadIdx.x] = 1; }

static void beyond_launch_bounds() {
  int *p = device();
  bounded<<<1, 256>>>(p);  // beyond_launch_bounds
  (void)hipGetLastError();
  (void)hipFree(p);
}

static void too_many_work_items() {
  int *p = device();
  fill<<<1 << 24, 256>>>(p, 1);  // too_many_work_items
  (void)hipGetLastError();
  (void)hipFree(p);
}

static void too_large_to_cooperate() {
  int *p = device(), value = 1;
  void *arguments[] = {&p, &value};
  hipError_t error = hipLaunchCooperativeKernel(fill, dim3(1 << 20), dim3(256), arguments, 0, nullptr);  // too_large_to_cooperate
  if (error == hipSuccess) printf("launched\n");
  (void)hipFree(p);
}

static void unseen_failure() {
  hipStream_t s = stream();
  hipGraph_t graph = nullptr;
  (void)hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed);
  (void)hipStreamSynchronize(s);      // ends the capture
  fill<<<1, 64, 0, s>>>(nullptr, 1);  // unseen_failure
  if (hipStreamEndCapture(s, &graph) == hipSuccess) printf("captured\n");
  (void)hipStreamDestroy(s);
}

static hipPitchedPtr cuboid() {
  hipPitchedPtr p;
  (void)hipMalloc3D(&p, make_hipExtent(64, 4, 2));
  (void)hipMemset3D(p, 0, make_hipExtent(64, 4, 2));
  return p;
}

static void cuboid_past_end() {
  std::vector<char> host(64 * 4 * 3);
  hipMemcpy3DParms copy = {};
  copy.srcPtr = make_hipPitchedPtr(host.data(), 64, 64, 4);
  copy.dstPtr = cuboid();
  copy.extent = make_hipExtent(64, 4, 3);
  copy.kind = hipMemcpyHostToDevice;
  if (hipMemcpy3D(&copy) != hipSuccess) printf("copied nothing\n");  // cuboid_past_end
  (void)hipFree(copy.dstPtr.ptr);
}

static void cuboid_filled_past_end() {
  hipPitchedPtr p = cuboid();
  if (hipMemset3D(p, 0, make_hipExtent(64, 5, 2)) != hipSuccess) printf("filled nothing\n");  // cuboid_filled_past_end
  (void)hipFree(p.ptr);
}

static void rectangle_past_end() {
  int *p = device();
  std::vector<int> host(N);
  hip_Memcpy2D copy = {};
  copy.srcMemoryType = hipMemoryTypeHost;
  copy.srcHost = host.data();
  copy.dstMemoryType = hipMemoryTypeDevice;
  copy.dstDevice = p;
  copy.dstY = 1;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 256;
  copy.Height = N * sizeof(int) / 256;
  if (hipMemcpyParam2D(&copy) != hipSuccess) printf("copied nothing\n");  // rectangle_past_end
  (void)hipFree(p);
}

static void cuboid_read_past_end() {
  int *p = device();
  std::vector<int> host(N + 64);
  HIP_MEMCPY3D copy = {};
  copy.srcMemoryType = hipMemoryTypeDevice;
  copy.srcDevice = p;
  copy.dstMemoryType = hipMemoryTypeHost;
  copy.dstHost = host.data();
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 256;
  copy.srcHeight = copy.dstHeight = copy.Height = N * sizeof(int) / 512;
  copy.Depth = 2;
  copy.srcXInBytes = 4;
  if (hipDrvMemcpy3D(&copy) != hipSuccess) printf("copied nothing\n");  // cuboid_read_past_end
  (void)hipFree(p);
}

static void cuboid_leak() {
  hipPitchedPtr kept;
  (void)hipMalloc3D(&kept, make_hipExtent(64, 4, 2));  // cuboid_leak
}

static void pool_past_end() {
  int *p = nullptr;
  (void)hipMallocAsync(reinterpret_cast<void **>(&p), N * sizeof(int), nullptr);
  fill<<<N / 256 + 1, 256>>>(p, 1);  // pool_past_end
  (void)hipFreeAsync(p, nullptr);
  (void)hipDeviceSynchronize();
}

static void leak() {
  int *p = device();
  int *kept = nullptr;
  (void)hipMalloc(&kept, 123 * sizeof(int));  // leak
  (void)hipFree(p);
}

static void host_leak() {
  int *kept = nullptr;
  (void)hipHostMalloc(reinterpret_cast<void **>(&kept), 64, 0);  // host_leak
}

static void stream_leak() {
  hipStream_t kept;
  (void)hipStreamCreate(&kept);  // stream_leak
}

static void event_leak() {
  hipEvent_t kept;
  (void)hipEventCreate(&kept);  // event_leak
}

static void destroyed_stream() {
  hipStream_t s = stream();
  (void)hipStreamDestroy(s);
  (void)hipStreamSynchronize(s);  // destroyed_stream
}

static void destroyed_event() {
  hipEvent_t e;
  (void)hipEventCreate(&e);
  (void)hipEventDestroy(e);
  (void)hipEventRecord(e, nullptr);  // destroyed_event
}

static void two_streams() {
  int *p = device();
  hipStream_t a = stream(), b = stream();
  fill<<<N / 256, 256, 0, a>>>(p, 1);
  fill<<<N / 256, 256, 0, b>>>(p, 2);  // two_streams
  (void)hipDeviceSynchronize();
  (void)hipStreamDestroy(a);
  (void)hipStreamDestroy(b);
  (void)hipFree(p);
}

static void forgotten_wait() {
  int *p = device(), *q = device();
  hipStream_t a = stream(), b = stream();
  hipEvent_t done;
  (void)hipEventCreate(&done);
  (void)hipEventRecord(done, a);  // before the kernel instead of behind it
  fill<<<N / 256, 256, 0, a>>>(p, 1);
  (void)hipStreamWaitEvent(b, done, 0);
  add<<<N / 256, 256, 0, b>>>(q, p);  // forgotten_wait
  (void)hipDeviceSynchronize();
  (void)hipEventDestroy(done);
  (void)hipStreamDestroy(a);
  (void)hipStreamDestroy(b);
  (void)hipFree(p);
  (void)hipFree(q);
}

static void copy_races() {
  int *p = device();
  std::vector<int> host(N);
  hipStream_t a = stream();
  fill<<<N / 256, 256, 0, a>>>(p, 1);
  (void)hipMemcpy(host.data(), p, N * sizeof(int), hipMemcpyDeviceToHost);  // copy_races
  (void)hipStreamSynchronize(a);
  (void)hipStreamDestroy(a);
  (void)hipFree(p);
}

static void fill_races() {
  int *p = nullptr;
  hipStream_t a = stream();
  (void)hipMalloc(&p, N * sizeof(int));
  (void)hipMemset(p, 0, N * sizeof(int));       // the host does not wait for it
  fill<<<N / 256, 256, 0, a>>>(p, 1);  // fill_races
  (void)hipDeviceSynchronize();
  (void)hipStreamDestroy(a);
  (void)hipFree(p);
}

static void two_copies() {
  int *p = device(), *host = nullptr;
  (void)hipHostMalloc(reinterpret_cast<void **>(&host), 2 * N * sizeof(int), 0);
  memset(host, 0, 2 * N * sizeof(int));
  hipStream_t a = stream(), b = stream();
  (void)hipMemcpyAsync(p, host, N * sizeof(int), hipMemcpyHostToDevice, a);
  (void)hipMemcpyAsync(p + N / 2, host + N, N / 2 * sizeof(int), hipMemcpyHostToDevice, b);  // two_copies
  (void)hipDeviceSynchronize();
  (void)hipStreamDestroy(a);
  (void)hipStreamDestroy(b);
  (void)hipHostFree(host);
  (void)hipFree(p);
}

int main(int argc, char **argv) {
#define CASE(name) {#name, name}
  std::map<std::string, std::function<void()>> cases = {
      CASE(use_after_free), CASE(copy_after_free), CASE(double_free), CASE(inner_free), CASE(foreign_free), CASE(copy_past_end),
      CASE(fill_past_end), CASE(symbol_past_end), CASE(wrong_direction), CASE(bad_geometry), CASE(empty_grid), CASE(empty_block),
      CASE(too_much_lds), CASE(beyond_launch_bounds), CASE(too_many_work_items), CASE(too_large_to_cooperate), CASE(cuboid_past_end),
      CASE(cuboid_filled_past_end), CASE(cuboid_leak), CASE(rectangle_past_end),
      CASE(cuboid_read_past_end), CASE(pool_past_end), CASE(unseen_failure), CASE(leak),
      CASE(host_leak), CASE(stream_leak), CASE(event_leak), CASE(destroyed_stream), CASE(destroyed_event), CASE(two_streams),
      CASE(forgotten_wait), CASE(copy_races), CASE(fill_races), CASE(two_copies)};
  for (int k = 1; k < argc; k++) cases.at(argv[k])();
  if (argc == 1)
    for (auto &c : cases) printf("%s\n", c.first.c_str());
  return 0;
}
