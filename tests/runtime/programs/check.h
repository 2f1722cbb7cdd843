// Named checks of a HIP program: prints PASS or FAIL for each, and ends with the number of failures.
#pragma once
#include <hip/hip_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

struct Failure {
  std::string reason;
};
struct Check {
  const char* name;
  void (*run)();
};

inline void require(hipError_t status, const char* call, int line) {
  if (status != hipSuccess) throw Failure{"line " + std::to_string(line) + ": " + call + ": " + hipGetErrorString(status)};
}
template <class T, class U>
void require_equal(const T& actual, const U& expected, const char* what, int line) {
  if (!(actual == static_cast<T>(expected)))
    throw Failure{"line " + std::to_string(line) + ": " + what + " is " + std::to_string(actual) + ", not " + std::to_string(expected)};
}
#define HIP(call) require((call), #call, __LINE__)
#define EQUAL(actual, expected) require_equal((actual), (expected), #actual, __LINE__)
#define TRUE(condition) require_equal(bool(condition), true, #condition, __LINE__)

template <class T>
T* device_array(size_t count) {
  T* pointer;
  HIP(hipMalloc(reinterpret_cast<void**>(&pointer), count * sizeof(T)));
  return pointer;
}
template <class T>
T* to_device(const std::vector<T>& values) {
  T* pointer = device_array<T>(values.size());
  HIP(hipMemcpy(pointer, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  return pointer;
}
template <class T>
std::vector<T> to_host(const T* pointer, size_t count) {
  std::vector<T> values(count);
  HIP(hipMemcpy(values.data(), pointer, count * sizeof(T), hipMemcpyDeviceToHost));
  return values;
}

// Runs the checks named by the arguments, or all.
inline int run_checks(int argc, char** argv, const std::vector<Check>& checks) {
  int failures = 0, done = 0;
  for (const Check& check : checks) {
    bool chosen = argc < 2;
    for (int i = 1; i < argc; i++) chosen = chosen || !strcmp(argv[i], check.name);
    if (!chosen) continue;
    done++;
    auto begin = std::chrono::steady_clock::now();
    std::string reason;
    try {
      check.run();
      HIP(hipGetLastError());
    } catch (const Failure& failure) {
      reason = ": " + failure.reason;
      failures++;
    }
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    printf("%s %s%s (%.2f s)\n", reason.empty() ? "PASS" : "FAIL", check.name, reason.c_str(), seconds.count());
    fflush(stdout);
  }
  return done ? failures : 100;
}
