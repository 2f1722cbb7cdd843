// States of an application in which a dispatch is captured: memory mapped in chunks, memory at an address that was used before,
// a full hardware queue, arguments in device memory, a queue with a mask of compute units.
#include <hip/hip_ext.h>

#include "check.h"

constexpr size_t kChunk = 2 << 20;

__global__ void add_chunks(const int* x, int chunks, int* sum) {
  int total = 0;
  for (int chunk = 0; chunk < chunks; chunk++) total += x[chunk * (kChunk / sizeof(int)) + 7];
  *sum = total;
}
__global__ void read_behind_hole(const int* x, int* y) { *y = x[2 * kChunk / sizeof(int) + 1] + 1; }
__global__ void increment(int* x) { (*x)++; }
__global__ void wait_cycles(unsigned long cycles, int* x) {
  const unsigned long start = __builtin_readcyclecounter();
  while (__builtin_readcyclecounter() - start < cycles) {
  }
  (*x)++;
}
__global__ void triple(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3;
}

// Address space of `chunks` chunks, of which those with a handle are mapped, like PyTorch's expandable segments.
struct Segment {
  char* base = nullptr;
  std::vector<hipMemGenericAllocationHandle_t> handles;

  explicit Segment(size_t chunks) : handles(chunks) {
    HIP(hipMemAddressReserve(reinterpret_cast<void**>(&base), chunks * kChunk, kChunk, nullptr, 0));
  }
  ~Segment() {
    for (size_t chunk = 0; chunk < handles.size(); chunk++)
      if (handles[chunk] != nullptr) unmap(chunk);
    (void)hipMemAddressFree(base, handles.size() * kChunk);
  }
  void map(size_t chunk) {
    hipMemAllocationProp kind{};
    kind.type = hipMemAllocationTypePinned;
    kind.location = {hipMemLocationTypeDevice, 0};
    HIP(hipMemCreate(&handles[chunk], kChunk, &kind, 0));
    HIP(hipMemMap(base + chunk * kChunk, kChunk, 0, handles[chunk], 0));
    const hipMemAccessDesc access{{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite};
    HIP(hipMemSetAccess(base + chunk * kChunk, kChunk, &access, 1));
  }
  void unmap(size_t chunk) {
    (void)hipMemUnmap(base + chunk * kChunk, kChunk);
    (void)hipMemRelease(handles[chunk]);
    handles[chunk] = nullptr;
  }
  void put(size_t chunk, size_t index, int value) {
    HIP(hipMemcpy(base + chunk * kChunk + index * sizeof(int), &value, sizeof value, hipMemcpyHostToDevice));
  }
};

static void chunks_of_one_reservation() {
  Segment segment(8);
  for (size_t chunk = 0; chunk < 5; chunk++) segment.map(chunk);
  for (int chunk = 0; chunk < 5; chunk++) segment.put(chunk, 7, 10 + chunk);
  int* sum = device_array<int>(1);
  add_chunks<<<1, 1>>>(reinterpret_cast<int*>(segment.base), 5, sum);
  EQUAL(to_host(sum, 1)[0], 60);
}
static void chunk_behind_a_hole() {
  Segment segment(4);
  for (size_t chunk = 0; chunk < 3; chunk++) segment.map(chunk);
  segment.unmap(0);
  segment.unmap(1);
  segment.put(2, 1, 41);
  int* y = device_array<int>(1);
  read_behind_hole<<<1, 1>>>(reinterpret_cast<int*>(segment.base), y);  // the pointer is to an address without memory
  EQUAL(to_host(y, 1)[0], 42);
}
static void reused_addresses() {
  const int n = 3 << 20;
  for (int round = 0; round < 3; round++) {  // allocations of other sizes at the same addresses
    void* held[4];
    for (int i = 0; i < 4; i++) HIP(hipMalloc(&held[i], (size_t(i) + 1 + round) << 20));
    for (void* one : held) HIP(hipFree(one));
    int* managed = nullptr;
    HIP(hipMallocManaged(reinterpret_cast<void**>(&managed), (2 + round) << 20));
    managed[0] = round;
    HIP(hipFree(managed));
  }
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = i;
  int* x = to_device(values);
  triple<<<n / 256, 256>>>(x, n);
  EQUAL(to_host(x, n)[n - 1], 3 * (n - 1));
}
static void flood_of_dispatches() {
  int* x = device_array<int>(1);
  HIP(hipMemset(x, 0, sizeof(int)));
  wait_cycles<<<1, 1>>>(300'000'000, x);
  for (int i = 0; i < 17000; i++) increment<<<1, 1>>>(x);
  EQUAL(to_host(x, 1)[0], 17001);
}
static void masked_queue() {
  const std::vector<uint32_t> mask{0xff, 0};
  hipStream_t stream;
  HIP(hipExtStreamCreateWithCUMask(&stream, mask.size(), mask.data()));
  std::vector<int> values(256, 5);
  int* x = to_device(values);
  triple<<<1, 256, 0, stream>>>(x, 256);
  HIP(hipStreamSynchronize(stream));
  EQUAL(to_host(x, 256)[255], 15);
}
static void serving() {  // until it is ended
  std::vector<int> values(256, 1);
  int* x = to_device(values);
  puts("PASS serving");
  fflush(stdout);
  for (;;) {
    triple<<<1, 256>>>(x, 256);
    HIP(hipDeviceSynchronize());
  }
}

int main(int argc, char** argv) {
  return run_checks(
      argc, argv,
      {{"chunks", chunks_of_one_reservation}, {"hole", chunk_behind_a_hole}, {"reused", reused_addresses},
       {"flood", flood_of_dispatches}, {"masked", masked_queue}, {"serving", serving}});
}
