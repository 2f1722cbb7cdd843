// Correct programs that look like mistakes of the host, chosen by the argument; without one, all run.
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

static const int N = 4096;

#define HIP(call)                                                                \
  do {                                                                           \
    hipError_t error = (call);                                                   \
    if (error != hipSuccess) {                                                   \
      printf("line %d: %s: %s\n", __LINE__, #call, hipGetErrorString(error));    \
      exit(3);                                                                   \
    }                                                                            \
  } while (0)
#define REQUIRE(condition)                                                       \
  do {                                                                           \
    if (!(condition)) {                                                          \
      printf("line %d: %s\n", __LINE__, #condition);                             \
      exit(4);                                                                   \
    }                                                                            \
  } while (0)

__global__ void fill(int *to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void increment(int *to) { to[blockIdx.x * blockDim.x + threadIdx.x]++; }
__global__ void add(int *to, const int *from) { to[blockIdx.x * blockDim.x + threadIdx.x] += from[blockIdx.x * blockDim.x + threadIdx.x]; }
__global__ void bytes(unsigned char *to, int first, int end, int value) {
  int i = first + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < end) to[i] = static_cast<unsigned char>(value);
}
__global__ void count(int *counter) { atomicAdd(counter, 1); }
__global__ void produce(int *data, int *flag) {
  data[threadIdx.x] = static_cast<int>(threadIdx.x) + 1;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
__global__ void consume(const int *data, int *flag, int *sum) {
  if (threadIdx.x == 0)
    while (!__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM)) __builtin_amdgcn_s_sleep(8);
  __syncthreads();
  atomicAdd(sum, data[threadIdx.x]);
}

static int *device(int count = N) {
  int *p = nullptr;
  HIP(hipMalloc(&p, count * sizeof(int)));
  HIP(hipMemset(p, 0, count * sizeof(int)));
  HIP(hipDeviceSynchronize());  // streams that do not block would not wait
  return p;
}
static int *pinned(int count = N) {
  int *p = nullptr;
  HIP(hipHostMalloc(reinterpret_cast<void **>(&p), count * sizeof(int), 0));
  memset(p, 0, count * sizeof(int));
  return p;
}
static hipStream_t stream() {
  hipStream_t s;
  HIP(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
  return s;
}
static int first(const int *p) {
  int value;
  HIP(hipMemcpy(&value, p, sizeof value, hipMemcpyDeviceToHost));
  return value;
}

static void events_between_streams() {
  int *p = device(), *q = device();
  hipStream_t a = stream(), b = stream(), c = stream();
  hipEvent_t filled, added;
  HIP(hipEventCreateWithFlags(&filled, hipEventDisableTiming));
  HIP(hipEventCreate(&added));
  for (int round = 1; round < 4; round++) {
    fill<<<N / 256, 256, 0, a>>>(p, round);
    HIP(hipEventRecord(filled, a));
    HIP(hipStreamWaitEvent(b, filled, 0));
    HIP(hipStreamWaitEvent(c, filled, 0));
    add<<<N / 256, 256, 0, b>>>(q, p);
    HIP(hipEventRecord(added, b));
    HIP(hipStreamWaitEvent(a, added, 0));
    HIP(hipStreamWaitEvent(c, added, 0));
  }
  int *host = pinned(1);
  HIP(hipMemcpyAsync(host, q, sizeof(int), hipMemcpyDeviceToHost, c));
  HIP(hipStreamSynchronize(c));
  REQUIRE(host[0] == 6);
  HIP(hipEventDestroy(filled));
  HIP(hipEventDestroy(added));
  for (hipStream_t s : {a, b, c}) HIP(hipStreamDestroy(s));
  HIP(hipHostFree(host));
  HIP(hipFree(p));
  HIP(hipFree(q));
}

static void flag_between_streams() {
  int *data = device(64), *sum = device(1), *flag = pinned(1);
  hipStream_t a = stream(), b = stream();
  consume<<<1, 64, 0, a>>>(data, flag, sum);
  produce<<<1, 64, 0, b>>>(data, flag);
  HIP(hipDeviceSynchronize());
  REQUIRE(first(sum) == 64 * 65 / 2);
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipHostFree(flag));
  HIP(hipFree(data));
  HIP(hipFree(sum));
}

static void flag_in_device_memory() {
  int *data = device(64), *sum = device(1), *flag = device(1);
  hipStream_t a = stream(), b = stream();
  consume<<<1, 64, 0, a>>>(data, flag, sum);
  produce<<<1, 64, 0, b>>>(data, flag);
  HIP(hipDeviceSynchronize());
  REQUIRE(first(sum) == 64 * 65 / 2);
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  for (int *p : {data, sum, flag}) HIP(hipFree(p));
}

static void host_polls() {
  int *data = device(64), *flag = pinned(1);
  hipStream_t a = stream(), b = stream();
  produce<<<1, 64, 0, a>>>(data, flag);
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) std::this_thread::yield();
  increment<<<1, 64, 0, b>>>(data);
  HIP(hipDeviceSynchronize());
  REQUIRE(first(data) == 2);
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipHostFree(flag));
  HIP(hipFree(data));
}

static void double_buffering() {
  int *host = pinned(2 * N), *p[2] = {device(), device()};
  hipStream_t s[2] = {stream(), stream()};
  for (int round = 0; round < 8; round++) {
    int k = round % 2;
    HIP(hipStreamSynchronize(s[k]));
    for (int i = 0; i < N; i++) host[k * N + i] = round;
    HIP(hipMemcpyAsync(p[k], host + k * N, N * sizeof(int), hipMemcpyHostToDevice, s[k]));
    increment<<<N / 256, 256, 0, s[k]>>>(p[k]);
    HIP(hipMemcpyAsync(host + k * N, p[k], N * sizeof(int), hipMemcpyDeviceToHost, s[k]));
  }
  HIP(hipDeviceSynchronize());
  REQUIRE(host[0] == 7 && host[N] == 8);
  for (int k = 0; k < 2; k++) HIP(hipStreamDestroy(s[k]));
  for (int k = 0; k < 2; k++) HIP(hipFree(p[k]));
  HIP(hipHostFree(host));
}

static void pool_reuse() {
  hipStream_t a = stream();
  for (int round = 0; round < 6; round++) {
    int *p = nullptr;
    HIP(hipMallocAsync(reinterpret_cast<void **>(&p), N * sizeof(int), a));
    fill<<<N / 256, 256, 0, a>>>(p, round);
    increment<<<N / 256, 256, 0, a>>>(p);
    HIP(hipFreeAsync(p, a));
  }
  HIP(hipStreamSynchronize(a));
  HIP(hipStreamDestroy(a));
}

static void freed_and_used_again() {
  for (int round = 0; round < 6; round++) {
    int *p = device();
    fill<<<N / 256, 256>>>(p, round);
    REQUIRE(first(p) == round);
    HIP(hipFree(p));
  }
  HIP(hipFree(nullptr));
  HIP(hipHostFree(nullptr));
}

static void parts_in_two_streams() {
  unsigned char *p = nullptr;
  HIP(hipMalloc(&p, 1001));
  HIP(hipMemset(p, 0, 1001));
  HIP(hipDeviceSynchronize());
  hipStream_t a = stream(), b = stream();
  bytes<<<4, 256, 0, a>>>(p, 0, 501, 1);        // meet inside of a word
  bytes<<<4, 256, 0, b>>>(p, 501, 1001, 2);
  unsigned char host[1001];
  HIP(hipStreamSynchronize(a));
  HIP(hipMemcpy(host, p, 501, hipMemcpyDeviceToHost));
  HIP(hipStreamSynchronize(b));
  HIP(hipMemcpy(host + 501, p + 501, 500, hipMemcpyDeviceToHost));
  REQUIRE(host[0] == 1 && host[500] == 1 && host[501] == 2 && host[1000] == 2);
  HIP(hipMemcpy(p + 1, p + 600, 400, hipMemcpyDeviceToDevice));
  HIP(hipMemcpy2D(p, 10, p + 505, 10, 5, 49, hipMemcpyDeviceToDevice));
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipFree(p));
}

static void columns_in_two_streams() {
  int *p = device(64 * 64), *host = pinned(64 * 64);
  hipStream_t a = stream(), b = stream();
  HIP(hipMemcpy2DAsync(p, 256, host, 256, 128, 64, hipMemcpyHostToDevice, a));
  HIP(hipMemcpy2DAsync(p + 32, 256, host + 32, 256, 128, 64, hipMemcpyHostToDevice, b));
  HIP(hipDeviceSynchronize());
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipHostFree(host));
  HIP(hipFree(p));
}

static void null_stream_order() {
  hipStream_t a, b;
  HIP(hipStreamCreate(&a));
  HIP(hipStreamCreate(&b));
  int *p = device();
  fill<<<N / 256, 256, 0, a>>>(p, 1);
  increment<<<N / 256, 256>>>(p);               // waits for a
  increment<<<N / 256, 256, 0, b>>>(p);         // waits for the null stream
  REQUIRE(first(p) == 3);
  HIP(hipStreamDestroy(a));
  HIP(hipStreamDestroy(b));
  HIP(hipFree(p));
}

static void callbacks() {
  static std::atomic<int> calls;
  calls = 0;
  int *p = device();
  hipStream_t a = stream(), b = stream();
  fill<<<N / 256, 256, 0, a>>>(p, 1);
  HIP(hipLaunchHostFunc(a, [](void *) { calls++; }, nullptr));
  while (calls < 1) std::this_thread::yield();
  increment<<<N / 256, 256, 0, b>>>(p);
  HIP(hipStreamAddCallback(b, [](hipStream_t, hipError_t, void *) { calls++; }, nullptr, 0));
  while (calls < 2) std::this_thread::yield();
  increment<<<N / 256, 256, 0, a>>>(p);
  HIP(hipStreamSynchronize(a));
  REQUIRE(first(p) == 3);
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipFree(p));
}

// Memory that a graph allocates and the stream frees later.
static void memory_of_a_graph() {
  hipStream_t a = stream();
  int *p = nullptr;
  hipGraph_t graph;
  hipGraphExec_t ready;
  HIP(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  HIP(hipMallocAsync(reinterpret_cast<void **>(&p), N * sizeof(int), a));
  HIP(hipMemsetAsync(p, 0, N * sizeof(int), a));
  HIP(hipStreamEndCapture(a, &graph));
  HIP(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(ready, a));
  HIP(hipFreeAsync(p, a));
  HIP(hipStreamSynchronize(a));
  HIP(hipGraphExecDestroy(ready));
  HIP(hipGraphDestroy(graph));
  HIP(hipStreamDestroy(a));
}

static void graphs() {
  int *p = device(), *q = device();
  hipStream_t a = stream(), b = stream();
  hipEvent_t fork, join;
  hipGraph_t graph;
  hipGraphExec_t ready;
  HIP(hipEventCreate(&fork));
  HIP(hipEventCreate(&join));
  HIP(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  HIP(hipEventRecord(fork, a));
  HIP(hipStreamWaitEvent(b, fork, 0));
  increment<<<N / 256, 256, 0, a>>>(p);
  increment<<<N / 256, 256, 0, b>>>(q);
  HIP(hipEventRecord(join, b));
  HIP(hipStreamWaitEvent(a, join, 0));
  add<<<N / 256, 256, 0, a>>>(p, q);
  HIP(hipStreamEndCapture(a, &graph));
  HIP(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 3; round++) HIP(hipGraphLaunch(ready, a));
  HIP(hipStreamSynchronize(a));
  increment<<<N / 256, 256, 0, b>>>(p);
  HIP(hipStreamSynchronize(b));
  REQUIRE(first(p) == 3 + 1 + 2 + 3 + 1);
  HIP(hipGraphExecDestroy(ready));
  HIP(hipGraphDestroy(graph));
  HIP(hipEventDestroy(fork));
  HIP(hipEventDestroy(join));
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipFree(p));
  HIP(hipFree(q));
}

static void in_order_reuse() {
  int *p = device(), *host = pinned();
  hipStream_t a = stream();
  for (int round = 0; round < 5; round++) {
    HIP(hipMemsetAsync(p, 0, N * sizeof(int), a));
    increment<<<N / 256, 256, 0, a>>>(p);
    HIP(hipMemcpyAsync(host, p, N * sizeof(int), hipMemcpyDeviceToHost, a));
  }
  hipEvent_t end;
  HIP(hipEventCreate(&end));
  HIP(hipEventRecord(end, a));
  while (hipEventQuery(end) == hipErrorNotReady) std::this_thread::yield();
  (void)hipGetLastError();
  REQUIRE(host[5] == 1);
  REQUIRE(first(p) == 1);
  HIP(hipEventDestroy(end));
  HIP(hipStreamDestroy(a));
  HIP(hipFree(p));
  HIP(hipHostFree(host));
}

static void shared_counter() {
  int *counter = device(1);
  hipStream_t a = stream(), b = stream();
  count<<<4, 64, 0, a>>>(counter);
  count<<<4, 64, 0, b>>>(counter);
  HIP(hipDeviceSynchronize());
  REQUIRE(first(counter) == 512);
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  HIP(hipFree(counter));
}

static void shared_input() {
  int *input = device(), *p = device(), *q = device();
  hipStream_t a = stream(), b = stream();
  add<<<N / 256, 256, 0, a>>>(p, input);
  add<<<N / 256, 256, 0, b>>>(q, input);
  HIP(hipDeviceSynchronize());
  for (hipStream_t s : {a, b}) HIP(hipStreamDestroy(s));
  for (int *x : {input, p, q}) HIP(hipFree(x));
}

static void threads() {
  std::vector<std::thread> all;
  for (int k = 0; k < 4; k++)
    all.emplace_back([] {
      int *p = device();
      hipStream_t s = stream();
      for (int round = 0; round < 4; round++) increment<<<N / 256, 256, 0, s>>>(p);
      HIP(hipStreamSynchronize(s));
      REQUIRE(first(p) == 4);
      HIP(hipStreamDestroy(s));
      HIP(hipFree(p));
    });
  for (auto &thread : all) thread.join();
}

static void any_direction() {
  int *p = device(), *host = pinned(), *managed = nullptr;
  std::vector<int> plain(N, 5);
  HIP(hipMallocManaged(reinterpret_cast<void **>(&managed), N * sizeof(int), hipMemAttachGlobal));
  HIP(hipMemcpy(managed, plain.data(), N * sizeof(int), hipMemcpyHostToDevice));
  HIP(hipMemcpy(p, managed, N * sizeof(int), hipMemcpyDefault));
  HIP(hipMemcpy(host, p, N * sizeof(int), hipMemcpyDeviceToHost));
  HIP(hipMemcpy(plain.data(), plain.data(), 0, hipMemcpyHostToHost));
  HIP(hipHostRegister(plain.data(), N * sizeof(int), 0));
  HIP(hipMemcpyAsync(plain.data(), p, N * sizeof(int), hipMemcpyDeviceToHost, nullptr));
  HIP(hipStreamSynchronize(nullptr));
  HIP(hipHostUnregister(plain.data()));
  REQUIRE(host[7] == 5 && plain[7] == 5);
  HIP(hipFree(p));
  HIP(hipFree(managed));
  HIP(hipHostFree(host));
}

// Memory that is no longer registered is still the host's, for any use.
static void registered_no_more() {
  int *p = device();
  std::vector<int> plain(N, 5);
  HIP(hipHostRegister(plain.data(), N * sizeof(int), 0));
  HIP(hipMemcpy(p, plain.data(), N * sizeof(int), hipMemcpyHostToDevice));
  HIP(hipHostUnregister(plain.data()));
  plain[7] = 6;
  HIP(hipMemcpy(p, plain.data(), N * sizeof(int), hipMemcpyHostToDevice));
  increment<<<N / 256, 256>>>(p);
  HIP(hipMemcpy(plain.data(), p, N * sizeof(int), hipMemcpyDeviceToHost));
  REQUIRE(plain[7] == 7 && plain[8] == 6);
  HIP(hipFree(p));
}

// Two streams copy the left and the right half of every row of a cuboid at the same time.
static void halves_of_a_cuboid() {
  const size_t width = 64, height = 3, depth = 4;
  hipPitchedPtr p;
  HIP(hipMalloc3D(&p, make_hipExtent(width, height, depth)));
  HIP(hipMemset3D(p, 0, make_hipExtent(width, height, depth)));
  HIP(hipDeviceSynchronize());
  unsigned char *from = reinterpret_cast<unsigned char *>(pinned()), *to = reinterpret_cast<unsigned char *>(pinned());
  for (size_t k = 0; k < width * height * depth; k++) from[k] = static_cast<unsigned char>(3 * k);
  hipStream_t streams[2] = {stream(), stream()};
  for (int half = 0; half < 2; half++) {
    hipMemcpy3DParms copy = {};
    copy.srcPtr = make_hipPitchedPtr(from, width, width, height);
    copy.dstPtr = p;
    copy.srcPos = copy.dstPos = make_hipPos(half * width / 2, 0, 0);
    copy.extent = make_hipExtent(width / 2, height, depth);
    copy.kind = hipMemcpyHostToDevice;
    HIP(hipMemcpy3DAsync(&copy, streams[half]));
  }
  HIP(hipDeviceSynchronize());
  hipMemcpy3DParms back = {};
  back.srcPtr = p;
  back.dstPtr = make_hipPitchedPtr(to, width, width, height);
  back.extent = make_hipExtent(width, height, depth);
  back.kind = hipMemcpyDeviceToHost;
  HIP(hipMemcpy3D(&back));
  REQUIRE(memcmp(from, to, width * height * depth) == 0);
  for (hipStream_t s : streams) HIP(hipStreamDestroy(s));
  HIP(hipFree(p.ptr));
  HIP(hipHostFree(from));
  HIP(hipHostFree(to));
}

int main(int argc, char **argv) {
#define CASE(name) {#name, name}
  std::map<std::string, std::function<void()>> cases = {
      CASE(events_between_streams), CASE(flag_between_streams), CASE(flag_in_device_memory), CASE(host_polls), CASE(double_buffering),
      CASE(pool_reuse), CASE(freed_and_used_again), CASE(parts_in_two_streams), CASE(columns_in_two_streams), CASE(null_stream_order),
      CASE(callbacks), CASE(graphs), CASE(in_order_reuse), CASE(shared_counter), CASE(shared_input), CASE(threads), CASE(any_direction),
      CASE(halves_of_a_cuboid), CASE(memory_of_a_graph), CASE(registered_no_more)};
  for (auto &c : cases) {
    bool chosen = argc == 1;
    for (int k = 1; k < argc; k++) chosen |= c.first == argv[k];
    if (!chosen) continue;
    c.second();
    printf("PASS %s\n", c.first.c_str());
    fflush(stdout);
  }
  return 0;
}
