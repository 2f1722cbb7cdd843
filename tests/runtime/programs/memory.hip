// Allocation, copies, host memory and virtual memory.
#include "check.h"

__global__ void scale(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
__global__ void fill_index(unsigned* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i;
}
__global__ void poke(unsigned char* x, size_t at) { x[at] = 0xa5; }
__device__ int table[16];
__constant__ int factors[4];
__device__ __managed__ int shared_counter = 5;
__global__ void use_symbols(int* out) {
  out[threadIdx.x] = table[threadIdx.x] * factors[threadIdx.x & 3];
  table[threadIdx.x] = 100 + threadIdx.x;
}
__global__ void bump() { shared_counter += 37; }

static unsigned char pattern(size_t i) { return static_cast<unsigned char>(i * 131 + (i >> 8) * 7 + 3); }

void memset_bytes() {
  auto* bytes = device_array<unsigned char>(4099);
  HIP(hipMemset(bytes, 0x5a, 4099));
  HIP(hipMemset(bytes + 3, 0x11, 5));
  auto host = to_host(bytes, 4099);
  for (size_t i = 0; i < host.size(); i++) EQUAL(int(host[i]), i >= 3 && i < 8 ? 0x11 : 0x5a);
}
void memset_words() {
  auto* words = device_array<unsigned>(1001);
  HIP(hipMemsetD32(reinterpret_cast<hipDeviceptr_t>(words), 0x12345678, 1001));
  HIP(hipMemsetD16(reinterpret_cast<hipDeviceptr_t>(words), 0xabcd, 3));
  auto host = to_host(words, 1001);
  EQUAL(host[0], 0xabcdabcdu);
  EQUAL(host[1], 0x1234abcdu);
  EQUAL(host[1000], 0x12345678u);
}
void copies_of_all_sizes() {
  const size_t most = 70000;
  std::vector<unsigned char> source(most), back(most);
  for (size_t i = 0; i < most; i++) source[i] = pattern(i);
  auto* device = device_array<unsigned char>(most + 16);
  for (size_t size : {1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 255, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 69999}) {
    for (size_t shift : {0, 1, 5}) {
      std::fill(back.begin(), back.end(), 0);
      HIP(hipMemset(device, 0, most + 16));
      HIP(hipMemcpy(device + shift, source.data(), size, hipMemcpyHostToDevice));
      HIP(hipMemcpy(back.data(), device + shift, size, hipMemcpyDeviceToHost));
      TRUE(std::equal(back.begin(), back.begin() + size, source.begin()));
      unsigned char behind = 1;
      HIP(hipMemcpy(&behind, device + shift + size, 1, hipMemcpyDeviceToHost));
      EQUAL(int(behind), 0);
    }
  }
  HIP(hipFree(device));
}
void large_copies() {
  const size_t size = size_t{64} << 20;
  std::vector<unsigned char> source(size), back(size);
  for (size_t i = 0; i < size; i++) source[i] = pattern(i);
  auto* device = to_device(source);
  HIP(hipMemcpy(back.data(), device, size, hipMemcpyDeviceToHost));
  TRUE(back == source);
  HIP(hipFree(device));
}
void device_to_device() {
  const size_t size = (3 << 20) + 5;
  std::vector<unsigned char> source(size);
  for (size_t i = 0; i < size; i++) source[i] = pattern(i);
  auto* a = to_device(source);
  auto* b = device_array<unsigned char>(size + 3);
  HIP(hipMemcpy(b + 3, a, size, hipMemcpyDeviceToDevice));
  TRUE(to_host(b + 3, size) == source);
}
void pitched_copies() {
  std::vector<int> source(64 * 64), part(32 * 32);
  for (int i = 0; i < 64 * 64; i++) source[i] = i;
  char* device;
  size_t pitch;
  HIP(hipMallocPitch(reinterpret_cast<void**>(&device), &pitch, 64 * 4, 64));
  HIP(hipMemcpy2D(device, pitch, source.data(), 256, 256, 64, hipMemcpyHostToDevice));
  HIP(hipMemcpy2D(part.data(), 128, device + 8 * pitch + 16, pitch, 128, 32, hipMemcpyDeviceToHost));
  EQUAL(part[0], 8 * 64 + 4);
  EQUAL(part[33], 9 * 64 + 5);
  HIP(hipMemset2D(device, pitch, 7, 100, 10));
  HIP(hipMemcpy2D(part.data(), 128, device, pitch, 128, 11, hipMemcpyDeviceToHost));
  EQUAL(part[0], 0x07070707);
  EQUAL(part[25], 25);
  EQUAL(part[10 * 32], 10 * 64);
}
void cuboid_copies() {
  const int width = 5, height = 4, depth = 3;
  std::vector<int> source(width * height * depth), back(source.size());
  for (size_t i = 0; i < source.size(); i++) source[i] = int(i) * 3;
  hipPitchedPtr device;
  hipExtent extent = make_hipExtent(width * 4, height, depth);
  HIP(hipMalloc3D(&device, extent));
  hipMemcpy3DParms copy{};
  copy.srcPtr = make_hipPitchedPtr(source.data(), width * 4, width, height);
  copy.dstPtr = device;
  copy.extent = extent;
  copy.kind = hipMemcpyHostToDevice;
  HIP(hipMemcpy3D(&copy));
  std::swap(copy.srcPtr, copy.dstPtr);
  copy.dstPtr = make_hipPitchedPtr(back.data(), width * 4, width, height);
  copy.kind = hipMemcpyDeviceToHost;
  HIP(hipMemcpy3D(&copy));
  TRUE(back == source);
}
void managed() {
  float* values;
  HIP(hipMallocManaged(&values, 4096));
  for (int i = 0; i < 1024; i++) values[i] = i;
  scale<<<4, 256>>>(values, 2, 1024);
  HIP(hipDeviceSynchronize());
  EQUAL(values[1023], 2046.f);
  values[0] = 21;
  scale<<<1, 64>>>(values, 2, 1);
  HIP(hipDeviceSynchronize());
  EQUAL(values[0], 42.f);
  HIP(hipFree(values));
}
void managed_variable() {
  shared_counter = 5;
  bump<<<1, 1>>>();
  HIP(hipDeviceSynchronize());
  EQUAL(shared_counter, 42);
}
void host_register() {
  std::vector<float> values(5000, 3);
  HIP(hipHostRegister(values.data(), values.size() * 4, 0));
  float* device;
  HIP(hipHostGetDevicePointer(reinterpret_cast<void**>(&device), values.data(), 0));
  scale<<<20, 256>>>(device, 2, 5000);
  HIP(hipDeviceSynchronize());
  HIP(hipHostUnregister(values.data()));
  EQUAL(values[0], 6.f);
  EQUAL(values[4999], 6.f);
}
void host_allocated() {
  float* values;
  HIP(hipHostMalloc(&values, 4096, hipHostMallocMapped));
  for (int i = 0; i < 1024; i++) values[i] = i + 1;
  scale<<<4, 256>>>(values, 3, 1024);
  HIP(hipDeviceSynchronize());
  EQUAL(values[1023], 3072.f);
  HIP(hipHostFree(values));
}
void symbols() {
  int values[16], scales[4] = {1, 10, 100, 1000};
  for (int i = 0; i < 16; i++) values[i] = i + 1;
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(table), values, sizeof values));
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(factors), scales, sizeof scales));
  int* out = device_array<int>(16);
  use_symbols<<<1, 16>>>(out);
  EQUAL(to_host(out, 16)[7], 8000);
  HIP(hipMemcpyFromSymbol(values, HIP_SYMBOL(table), sizeof values));
  EQUAL(values[5], 105);
}
void stream_ordered() {
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  for (int round = 0; round < 5; round++) {
    int *pointer, host[1024];
    HIP(hipMallocAsync(reinterpret_cast<void**>(&pointer), 4096, stream));
    HIP(hipMemsetAsync(pointer, round, 4096, stream));
    HIP(hipMemcpyAsync(host, pointer, 4096, hipMemcpyDeviceToHost, stream));
    HIP(hipFreeAsync(pointer, stream));
    HIP(hipStreamSynchronize(stream));
    EQUAL(host[1023], round * 0x01010101);
  }
}
void virtual_memory() {
  hipMemAllocationProp property{};
  property.type = hipMemAllocationTypePinned;
  property.location.type = hipMemLocationTypeDevice;
  size_t unit;
  HIP(hipMemGetAllocationGranularity(&unit, &property, hipMemAllocationGranularityMinimum));
  hipMemGenericAllocationHandle_t handles[2];
  for (auto& handle : handles) HIP(hipMemCreate(&handle, unit, &property, 0));
  char* address;
  HIP(hipMemAddressReserve(reinterpret_cast<void**>(&address), 2 * unit, 0, 0, 0));
  hipMemAccessDesc access{};
  access.location = property.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  for (int i = 0; i < 2; i++) HIP(hipMemMap(address + i * unit, unit, 0, handles[i], 0));
  HIP(hipMemSetAccess(address, 2 * unit, &access, 1));
  const int n = int(2 * unit / 4);
  fill_index<<<n / 256, 256>>>(reinterpret_cast<unsigned*>(address), n);
  EQUAL(to_host(reinterpret_cast<unsigned*>(address), n)[n - 1], unsigned(n - 1));
  HIP(hipMemUnmap(address, unit));
  HIP(hipMemUnmap(address + unit, unit));
  // The second block, mapped again where the first one was, keeps its content.
  HIP(hipMemMap(address, unit, 0, handles[1], 0));
  HIP(hipMemSetAccess(address, unit, &access, 1));
  EQUAL(to_host(reinterpret_cast<unsigned*>(address), 1)[0], unsigned(n / 2));
  HIP(hipMemUnmap(address, unit));
  for (auto& handle : handles) HIP(hipMemRelease(handle));
  HIP(hipMemAddressFree(address, 2 * unit));
}
void huge_allocation() {
  const size_t size = size_t{40} << 30;
  auto* bytes = device_array<unsigned char>(size);
  poke<<<1, 1>>>(bytes, size - 1);
  poke<<<1, 1>>>(bytes, size / 2);
  EQUAL(int(to_host(bytes + size - 1, 1)[0]), 0xa5);
  EQUAL(int(to_host(bytes + size / 2, 1)[0]), 0xa5);
  HIP(hipFree(bytes));
}
void free_memory() {
  size_t free_before, free_now, total;
  HIP(hipMemGetInfo(&free_before, &total));
  auto* bytes = device_array<char>(size_t{1} << 30);
  HIP(hipMemGetInfo(&free_now, &total));
  TRUE(free_before - free_now >= size_t{1} << 30);
  TRUE(free_now < total);
  HIP(hipFree(bytes));
  HIP(hipMemGetInfo(&free_now, &total));
  TRUE(free_now + (size_t{64} << 20) >= free_before);
}
void many_allocations() {
  std::vector<unsigned*> arrays;
  for (int i = 0; i < 500; i++) {
    arrays.push_back(device_array<unsigned>(1024 + i));
    fill_index<<<1, 64>>>(arrays[i] + i, 64);
    if (i % 3 == 2) {
      HIP(hipFree(arrays[i - 1]));
      arrays[i - 1] = nullptr;
    }
  }
  for (int i = 0; i < 500; i++) {
    if (!arrays[i]) continue;
    EQUAL(to_host(arrays[i] + i, 64)[63], 63u);
    HIP(hipFree(arrays[i]));
  }
}
void pageable_async() {
  const int n = 1 << 18;
  hipStream_t stream;
  HIP(hipStreamCreate(&stream));
  std::vector<float> source(n, 1.5f), back(n);
  auto* device = device_array<float>(n);
  HIP(hipMemcpyAsync(device, source.data(), n * 4, hipMemcpyHostToDevice, stream));
  scale<<<n / 256, 256, 0, stream>>>(device, 4, n);
  HIP(hipMemcpyAsync(back.data(), device, n * 4, hipMemcpyDeviceToHost, stream));
  HIP(hipStreamSynchronize(stream));
  EQUAL(back[0], 6.f);
  EQUAL(back[n - 1], 6.f);
}

int main(int argc, char** argv) {
  return run_checks(argc, argv, {{"memset_bytes", memset_bytes}, {"memset_words", memset_words}, {"copies_of_all_sizes", copies_of_all_sizes},
                                 {"large_copies", large_copies}, {"device_to_device", device_to_device}, {"pitched_copies", pitched_copies},
                                 {"cuboid_copies", cuboid_copies}, {"managed", managed}, {"managed_variable", managed_variable},
                                 {"host_register", host_register}, {"host_allocated", host_allocated}, {"symbols", symbols},
                                 {"stream_ordered", stream_ordered}, {"virtual_memory", virtual_memory}, {"huge_allocation", huge_allocation},
                                 {"free_memory", free_memory}, {"many_allocations", many_allocations}, {"pageable_async", pageable_async}});
}
