// Helpers of programs that compare algorithms on device memory with the C++ standard library.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include "check.h"

// Runs an algorithm in the way of rocPRIM and hipCUB: asks for the size of its temporary memory, then executes.
template <class Algorithm>
static void run(Algorithm algorithm) {
  size_t bytes = 0;
  HIP(algorithm(nullptr, bytes));
  char* temporary = device_array<char>(bytes + 1);
  HIP(algorithm(temporary, bytes));
  HIP(hipDeviceSynchronize());
  HIP(hipFree(temporary));
}
template <class T>
static std::vector<T> random_values(size_t count, unsigned modulus = 0) {
  std::mt19937 generator(unsigned(count) + 7);
  std::vector<T> values(count);
  for (auto& value : values) value = modulus ? T(generator() % modulus) : T(int(generator()));
  return values;
}
template <class T>
static void same(const T* device, const std::vector<T>& expected) {
  auto actual = to_host(device, expected.size());
  for (size_t i = 0; i < expected.size(); i++)
    if (!(actual[i] == expected[i])) throw Failure{"size " + std::to_string(expected.size()) + ", element " + std::to_string(i) + " is " + std::to_string(actual[i]) + ", not " + std::to_string(expected[i])};
}
// Device memory of a check, freed with it.
struct Arrays {
  std::vector<void*> owned;
  ~Arrays() {
    for (void* pointer : owned) (void)hipFree(pointer);
  }
  template <class T>
  T* in(const std::vector<T>& values) {
    T* pointer = to_device(values);
    owned.push_back(pointer);
    return pointer;
  }
  template <class T>
  T* out(size_t count) {
    T* pointer = device_array<T>(count);
    owned.push_back(pointer);
    return pointer;
  }
};
