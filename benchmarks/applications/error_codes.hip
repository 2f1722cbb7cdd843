// Mistakes that the runtime reports: each call returns the expected code, and the error state is read and cleared.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>

static int unexpected = 0;

static void expect(hipError_t got, hipError_t expected, const char* what) {
  const bool same = got == expected;
  printf("%-34s %s%s\n", what, hipGetErrorName(got), same ? "" : " UNEXPECTED");
  unexpected += !same;
}

__global__ void nothing() {}

int main() {
  expect(hipGetLastError(), hipSuccess, "no error yet");
  expect(hipSetDevice(1000), hipErrorInvalidDevice, "device that does not exist");
  expect(hipPeekAtLastError(), hipErrorInvalidDevice, "peek keeps the error");
  expect(hipGetLastError(), hipErrorInvalidDevice, "get returns the error");
  expect(hipGetLastError(), hipSuccess, "and clears it");

  void* memory = nullptr;
  expect(hipMalloc(&memory, size_t(1) << 50), hipErrorOutOfMemory, "a pebibyte");
  expect(hipMalloc(nullptr, 16), hipErrorInvalidValue, "no place for the pointer");
  expect(hipMalloc(&memory, 0), hipSuccess, "no bytes");
  printf("%-34s %s\n", "pointer of no bytes", memory ? "set" : "null");
  expect(hipFree(nullptr), hipSuccess, "free of null");
  expect(hipDeviceGetAttribute(nullptr, hipDeviceAttributeWarpSize, 0), hipErrorInvalidValue, "no place for the attribute");

  hipEvent_t start, stop;
  float time = 0;
  expect(hipEventCreate(&start), hipSuccess, "event");
  expect(hipEventCreateWithFlags(&stop, hipEventDisableTiming), hipSuccess, "event without times");
  expect(hipEventElapsedTime(&time, start, start), hipErrorInvalidHandle, "time of unrecorded events");
  expect(hipEventRecord(start, nullptr), hipSuccess, "record");
  expect(hipEventRecord(stop, nullptr), hipSuccess, "record");
  expect(hipDeviceSynchronize(), hipSuccess, "synchronize");
  expect(hipEventElapsedTime(&time, start, stop), hipErrorInvalidHandle, "time without times");
  expect(hipEventQuery(start), hipSuccess, "query");
  expect(hipEventDestroy(start), hipSuccess, "destroy");
  expect(hipEventDestroy(stop), hipSuccess, "destroy");

  hipModule_t module;
  expect(hipModuleLoad(&module, "/nonexistent.hsaco"), hipErrorFileNotFound, "module file that does not exist");
  hipStream_t stream;
  expect(hipStreamCreateWithFlags(&stream, 77), hipErrorInvalidValue, "unknown flags");
  hipGraph_t graph;
  expect(hipStreamCreate(&stream), hipSuccess, "stream");
  expect(hipStreamEndCapture(stream, &graph), hipErrorIllegalState, "end of no capture");
  expect(hipStreamDestroy(stream), hipSuccess, "destroy");
  (void)hipGetLastError();
  nothing<<<1, 1>>>();
  expect(hipGetLastError(), hipSuccess, "launch after errors");
  expect(hipDeviceSynchronize(), hipSuccess, "synchronize");
  const bool named = !strcmp(hipGetErrorString(hipErrorInvalidValue), "invalid argument") && !strcmp(hipGetErrorName(hipErrorNotReady), "hipErrorNotReady");
  printf("names %s, %d unexpected\n", named ? "ok" : "wrong", unexpected);
  return unexpected || !named ? 1 : 0;
}
