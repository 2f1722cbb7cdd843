// Measures the runtime below it: prints one line of JSON. Usage: runtime [LAUNCHES] [MEBIBYTES]
#include <hip/hip_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    hipError_t error_ = (call);                                                          \
    if (error_ != hipSuccess) {                                                          \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(error_)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

__global__ void empty() {}

__global__ void increment(int *counter) {
  if (threadIdx.x == 0) *counter += 1;
}

static long resident_kib() {
  long kib = 0;
  char line[256];
  std::FILE *status = std::fopen("/proc/self/status", "r");
  while (status && std::fgets(line, sizeof line, status)) std::sscanf(line, "VmRSS: %ld", &kib);
  if (status) std::fclose(status);
  return kib;
}

int main(int argc, char **argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 100000;
  const size_t bytes = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 256) << 20;

  auto start = Clock::now();
  int *counter;
  CHECK(hipMalloc(&counter, sizeof *counter));
  const double first_call_s = seconds_since(start);
  CHECK(hipMemset(counter, 0, sizeof *counter));
  empty<<<1, 64>>>();
  increment<<<1, 64>>>(counter);
  CHECK(hipDeviceSynchronize());

  const int synchronised = 2000;
  start = Clock::now();
  for (int i = 0; i < synchronised; i++) {
    empty<<<1, 64>>>();
    CHECK(hipDeviceSynchronize());
  }
  const double latency_us = seconds_since(start) / synchronised * 1e6;

  CHECK(hipMemset(counter, 0, sizeof *counter));
  start = Clock::now();
  for (int i = 0; i < launches; i++) increment<<<1, 64>>>(counter);
  CHECK(hipDeviceSynchronize());
  const double launches_s = seconds_since(start);
  int count = 0;
  CHECK(hipMemcpy(&count, counter, sizeof count, hipMemcpyDeviceToHost));
  const long kib = resident_kib();

  std::vector<char> host(bytes, 1), other(bytes, 2);
  start = Clock::now();
  for (int i = 0; i < 4; i++) std::copy(host.begin(), host.end(), other.begin());
  const double memory_gb_s = 4.0 * bytes / seconds_since(start) / 1e9;
  char *device;
  CHECK(hipMalloc(&device, bytes));
  CHECK(hipMemcpy(device, host.data(), bytes, hipMemcpyHostToDevice));  // touches the pages
  start = Clock::now();
  for (int i = 0; i < 4; i++) CHECK(hipMemcpy(device, host.data(), bytes, hipMemcpyHostToDevice));
  const double to_device_gb_s = 4.0 * bytes / seconds_since(start) / 1e9;
  start = Clock::now();
  for (int i = 0; i < 4; i++) CHECK(hipMemcpy(host.data(), device, bytes, hipMemcpyDeviceToHost));
  const double to_host_gb_s = 4.0 * bytes / seconds_since(start) / 1e9;

  std::printf("{\"first_call_s\": %.6f, \"latency_us\": %.3f, \"launches\": %d, \"launches_s\": %.6f, \"count\": %d, "
              "\"resident_kib\": %ld, \"memory_gb_s\": %.3f, \"to_device_gb_s\": %.3f, \"to_host_gb_s\": %.3f}\n",
              first_call_s, latency_us, launches, launches_s, count, kib, memory_gb_s, to_device_gb_s, to_host_gb_s);
  return count == launches ? 0 : 1;
}
