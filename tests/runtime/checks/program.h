// Shared by the programs: every call must succeed.
#pragma once
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP(call)                                                                                    \
  do {                                                                                               \
    hipError_t error_ = (call);                                                                      \
    if (error_ != hipSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, hipGetErrorString(error_));            \
      std::exit(3);                                                                                  \
    }                                                                                                \
  } while (0)

template <class T>
T *device(const std::vector<T> &values) {
  T *memory;
  HIP(hipMalloc(&memory, values.size() * sizeof(T)));
  HIP(hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  return memory;
}

template <class T>
std::vector<T> host(const T *memory, size_t count) {
  std::vector<T> values(count);
  HIP(hipMemcpy(values.data(), memory, count * sizeof(T), hipMemcpyDeviceToHost));
  return values;
}

// Ends the program: 0 if the results are right.
inline int ended(bool right) {
  HIP(hipDeviceSynchronize());
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 4;
}
